// Counts over the very runs of slots that the loops walk.
#include "_enzyme/density.h"

// counts: slots that W is evaluated on, and ordered pairs of two particles with r < 2h among them. Not for bad positions.
template <typename Real, std::size_t N>
void counts(enzyme::tensor<std::int64_t, 2>& counts, const enzyme::tensor<Real, N, 2>& positions,
            const enzyme::tensor<Real, 8>& values) {
  const Parameters<Real>& p = parameters_of(values);
  Scratch<Real> scratch(N, p.cells_per_side);
  const Real *x = scratch.x.data, *y = scratch.y.data;
  build_cells(&positions[0][0], scratch.cells, scratch.x.data, scratch.y.data, N, p);
  counts = 0;
  for (std::int32_t k = 0; k < std::int32_t(N); ++k) {
    for_each_run(x[k], y[k], scratch.cells, p, [&](std::int32_t begin, std::int32_t end) {
      counts[0] += end - begin;
      for (std::int32_t l = begin; l < end; ++l) {
        const Real dx = image_distance(x[k] - x[l], p.box_length);
        const Real dy = image_distance(y[k] - y[l], p.box_length);
        counts[1] += l != k && square_root(dx * dx + dy * dy) < 2 * p.smoothing_length;
      }
    });
  }
}
