// Loss of a range of slots; the loops stand in _enzyme/pipeline.h.
#include "_enzyme/pipeline.h"

// Every range sorts all positions: the sort is a small part of the work, and so threads share nothing.
template <typename Real, std::size_t N>
void loss(enzyme::tensor<Real>& loss, enzyme::tensor<std::int32_t>& status, const enzyme::tensor<Real, N, 2>& positions,
          const enzyme::tensor<Real, 8>& values, const enzyme::tensor<std::int32_t, 2>& slots) {
  const Parameters<Real>& p = parameters_of(values);
  loss = 0;
  status = status_of(&positions[0][0], N, p);
  if (status) return;
  Scratch<Real> scratch(N, p.cells_per_side);
  loss = density_loss(&positions[0][0], scratch.x.data, scratch.y.data, scratch.cells, p, N, slots[0], slots[1]);
}
