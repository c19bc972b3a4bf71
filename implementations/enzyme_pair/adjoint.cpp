// The gradient as a second gather over the same runs; Enzyme differentiates W(r) alone.
//
//   dL/dx_k = sum_l 2 m (e_k + e_l) W'(r) / r (x_k - x_l),   r = |x_k - x_l|
#include "enzyme_pair/forward.cpp"

// Difference of wrapped coordinates to the nearest image.
template <typename Real> static inline Real image_difference(Real difference, Real length) {
  if (difference > length / 2) return difference - length;
  return difference < -length / 2 ? difference + length : difference;
}

// W'(r) in units of sigma.
template <typename Real> static inline Real spline_slope(Real r, Real inverse_h) {
  return enzyme::__enzyme_autodiff<Real>((void*)spline<Real>, r, enzyme_const, inverse_h);
}

// Adds sum_l (e_k + e_l) W'(r) / (sigma r) (x_k - x_l) over the slots from begin to end; nothing where r = 0.
template <typename Real>
static inline void add_run(Real& gx, Real& gy, std::int32_t k, const Real* x, const Real* y, const Real* excess,
                           std::int32_t begin, std::int32_t end, const Parameters<Real>& p) {
#pragma clang fp reassociate(on)  // the sums may be vectorised
  const Real inverse_h = 1 / p.smoothing_length;
  Real sum_x = 0, sum_y = 0;
  for (std::int32_t l = begin; l < end; ++l) {
    const Real dx = image_difference(x[k] - x[l], p.box_length);
    const Real dy = image_difference(y[k] - y[l], p.box_length);
    const Real r = square_root(dx * dx + dy * dy);
    const Real factor = r > 0 ? (excess[k] + excess[l]) * spline_slope(r, inverse_h) / r : 0;
    sum_x += factor * dx;
    sum_y += factor * dy;
  }
  gx += sum_x;
  gy += sum_y;
}

template <typename Real, std::size_t N>
void gradient(enzyme::tensor<Real, N, 2>& gradient, enzyme::tensor<std::int32_t>& status,
              const enzyme::tensor<Real, N, 2>& positions, const enzyme::tensor<Real, 8>& values) {
  const Parameters<Real> p = parameters_of(values);
  status = status_of(&positions[0][0], N, p);
  if (status) return;
  const Scratch<Real> scratch(N, p.cells_per_side);
  const Buffer<Real> excess(N);
  density_pass(&positions[0][0], scratch, excess.data, p, N);
  const Real *x = scratch.x.data, *y = scratch.y.data;
  const Real scale = 2 * p.mass * p.normalisation;
  for (std::int32_t k = 0; k < std::int32_t(N); ++k) {
    Real gx = 0, gy = 0;
    for_each_run(x[k], y[k], scratch.cells, p, [&](std::int32_t begin, std::int32_t end) {
      add_run(gx, gy, k, x, y, excess.data, begin, end, p);
    });
    gradient[scratch.cells.order[k]][0] = scale * gx;
    gradient[scratch.cells.order[k]][1] = scale * gy;
  }
}
