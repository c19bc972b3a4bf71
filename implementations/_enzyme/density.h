// The cubic spline W and the density summation over a cell list.
//
//   W(r, h) = sigma [ max(2 - q, 0)^3 / 4 - max(1 - q, 0)^3 ],   q = r / h
//   rho_k   = sum_l m W(|x_k - x_l|, h)
//
// W is Monaghan's cubic spline without a branch: 1 - 3 q^2 / 2 + 3 q^3 / 4 for q < 1, (2 - q)^3 / 4 for q < 2.
#pragma once
#include "_enzyme/cells.h"

// W in units of sigma. r: distance; inverse_h: 1 / h.
template <typename Real> static inline Real spline(Real r, Real inverse_h) {
  const Real q = r * inverse_h;
  const Real outer = larger(2 - q, Real(0));
  const Real inner = larger(1 - q, Real(0));
  return Real(0.25) * outer * outer * outer - inner * inner * inner;
}

// Sum of W / sigma over the slots from begin to end.
template <typename Real>
static inline Real run_sum(Real xk, Real yk, const Real* x, const Real* y, std::int32_t begin, std::int32_t end,
                           const Parameters<Real>& p) {
#pragma clang fp reassociate(on)  // the sum may be vectorised
  const Real inverse_h = 1 / p.smoothing_length;
  Real sum = 0;
  for (std::int32_t l = begin; l < end; ++l) {
    const Real dx = image_distance(xk - x[l], p.box_length);
    const Real dy = image_distance(yk - y[l], p.box_length);
    sum += spline(square_root(dx * dx + dy * dy), inverse_h);
  }
  return sum;
}

// rho of the particle in slot k, the self term included.
template <typename Real>
static inline Real density(std::int32_t k, const CellList& cells, const Real* x, const Real* y,
                           const Parameters<Real>& p) {
  Real sum = 0;
  for_each_run(x[k], y[k], cells, p, [&](std::int32_t begin, std::int32_t end) {
    sum += run_sum(x[k], y[k], x, y, begin, end, p);
  });
  return p.mass * p.normalisation * sum;
}
