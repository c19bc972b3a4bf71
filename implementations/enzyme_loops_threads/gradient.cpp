// Gradient of the loss of a range of slots: one call of Enzyme on the whole pipeline (_enzyme/gradient.h).
#include "_enzyme/gradient.h"

template <typename Real, std::size_t N>
void gradient(enzyme::tensor<Real, N, 2>& gradient, enzyme::tensor<std::int32_t>& status,
              const enzyme::tensor<Real, N, 2>& positions, const enzyme::tensor<Real, 8>& values,
              const enzyme::tensor<std::int32_t, 2>& slots) {
  const Parameters<Real>& p = parameters_of(values);
  gradient = 0;
  status = status_of(&positions[0][0], N, p);
  if (status) return;
  add_gradient(&positions[0][0], &gradient[0][0], p, N, slots[0], slots[1]);
}
