// Periodic box, cell list and stencil in plain C++, for Enzyme to differentiate.
#pragma once
#include "_enzyme/call.h"

// Cell list of n particles: a slot is a place in cell order, and the slots of a cell are contiguous.
struct CellList {
  std::int32_t* cell;   // (n,) particle -> its cell, column + cells_per_side * row
  std::int32_t* order;  // (n,) slot -> its particle
  std::int32_t* start;  // (cells + 2,) cell -> its first slot; zero before it is built
};

// A cell list, the wrapped positions in cell order, and the memory of both.
template <typename Real> struct Scratch {
  Buffer<std::int32_t> cell, order, start;
  Buffer<Real> x, y;  // (n,) each
  CellList cells;
  Scratch(std::int64_t n, std::int64_t cells_per_side)
      : cell(n), order(n), start(cells_per_side * cells_per_side + 2), x(n), y(n),
        cells{cell.data, order.data, start.data} {}
};

// coordinate mod L by the exact remainder; one that rounds up to L stays there, in the last cell.
template <typename Real> static inline Real wrap(Real coordinate, Real length) {
  if (coordinate >= 0 && coordinate < length) return coordinate;
  const Real remainder = remainder_of(coordinate, length);
  return remainder < 0 ? remainder + length : remainder;
}

template <typename Real> static inline std::int32_t cell_coordinate(Real wrapped, const Parameters<Real>& p) {
  return smaller(std::int32_t(wrapped * p.cells_per_length), std::int32_t(p.cells_per_side) - 1);
}

// Counting sort of the positions into cells, then the gather into cell order.
//
// Cells are counted two places up, so that after the sums start[c + 1] is the first slot of c, and after the
// scatter, which moves it past the last slot of c, start[c] is.
template <typename Real>
static inline void build_cells(const Real* positions, const CellList& cells, Real* x, Real* y, std::int32_t n,
                               const Parameters<Real>& p) {
  const std::int32_t side = std::int32_t(p.cells_per_side);
  for (std::int32_t i = 0; i < n; ++i) {
    const std::int32_t column = cell_coordinate(wrap(positions[2 * i], p.box_length), p);
    const std::int32_t row = cell_coordinate(wrap(positions[2 * i + 1], p.box_length), p);
    cells.cell[i] = column + side * row;
    ++cells.start[cells.cell[i] + 2];
  }
  for (std::int32_t c = 2; c <= side * side; ++c) cells.start[c] += cells.start[c - 1];
  for (std::int32_t i = 0; i < n; ++i) cells.order[cells.start[cells.cell[i] + 1]++] = i;
  for (std::int32_t slot = 0; slot < n; ++slot) {
    x[slot] = wrap(positions[2 * cells.order[slot]], p.box_length);
    y[slot] = wrap(positions[2 * cells.order[slot] + 1], p.box_length);
  }
}

// Calls visit(begin, end) for runs of contiguous slots that together hold the (up to) 3x3 distinct cells around a
// wrapped position: of each row, the columns inside the box, then those across its face, mostly none.
//
// With one or two cells a side the stencil is as wide as the box, and it too visits each cell once. No branch on the
// number of cells: Enzyme would carry it into the innermost loop of the adjoint, which then is not vectorised.
template <typename Real, typename Visit>
static inline void for_each_run(Real x, Real y, const CellList& cells, const Parameters<Real>& p, Visit visit) {
  const std::int32_t side = std::int32_t(p.cells_per_side), width = smaller(side, 3);
  const std::int32_t first_row = cell_coordinate(y, p) - width / 2;
  const std::int32_t first = cell_coordinate(x, p) - width / 2, last = first + width;
  const std::int32_t begin = larger(first, 0), end = smaller(last, side);
  const std::int32_t across_begin = first < 0 ? first + side : 0;
  const std::int32_t across_end = across_begin + larger(larger(-first, last - side), 0);
  for (std::int32_t i = 0; i < width; ++i) {
    const std::int32_t row = first_row + i;
    const std::int32_t* start = cells.start + side * (row < 0 ? row + side : row >= side ? row - side : row);
    visit(start[begin], start[end]);
    visit(start[across_begin], start[across_end]);
  }
}

// Distance along one axis to the nearest image, of a difference of wrapped coordinates.
template <typename Real> static inline Real image_distance(Real difference, Real length) {
  const Real direct = magnitude(difference);
  return smaller(direct, length - direct);
}
