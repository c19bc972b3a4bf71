// Cell ids, counting sort, gather and density pass.
//
//   e_k = rho_k - rho_0,   loss = sum_k e_k^2
#include "_enzyme/density.h"

// Builds the cells and fills excess, (n,), with e of every slot.
template <typename Real>
static void density_pass(const Real* positions, const Scratch<Real>& scratch, Real* excess, const Parameters<Real>& p,
                         std::int32_t n) {
  const Real *x = scratch.x.data, *y = scratch.y.data;
  build_cells(positions, scratch.cells, scratch.x.data, scratch.y.data, n, p);
  for (std::int32_t k = 0; k < n; ++k) excess[k] = density(k, scratch.cells, x, y, p) - p.rest_density;
}

template <typename Real, std::size_t N>
void loss(enzyme::tensor<Real>& loss, enzyme::tensor<std::int32_t>& status, const enzyme::tensor<Real, N, 2>& positions,
          const enzyme::tensor<Real, 8>& values) {
  const Parameters<Real> p = parameters_of(values);
  loss = 0;
  status = status_of(&positions[0][0], N, p);
  if (status) return;
  const Scratch<Real> scratch(N, p.cells_per_side);
  const Buffer<Real> excess(N);
  density_pass(&positions[0][0], scratch, excess.data, p, N);
  double sum = 0;
  for (std::size_t k = 0; k < N; ++k) sum += double(excess.data[k]) * excess.data[k];
  loss = sum;
}
