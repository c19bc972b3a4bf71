// The whole pipeline as one function: what enzyme_loops and enzyme_loops_threads differentiate.
#pragma once
#include "_enzyme/density.h"

// Cell ids, counting sort, gather, and sum of (rho_k - rho_0)^2 over the slots k of a range; the positions' all.
template <typename Real>
static double density_loss(const Real* __restrict positions, Real* __restrict x, Real* __restrict y,
                           const CellList& lists, const Parameters<Real>& parameters, std::int32_t n,
                           std::int32_t first, std::int32_t last) {
  const CellList cells = lists;  // copies, so that no store of the adjoint can be thought to change them
  const Parameters<Real> p = parameters;
  build_cells(positions, cells, x, y, n, p);
  double loss = 0;
  for (std::int32_t k = first; k < last; ++k) {
    const double excess = density(k, cells, x, y, p) - p.rest_density;
    loss += excess * excess;
  }
  return loss;
}
