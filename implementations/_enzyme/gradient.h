// The derivative of the whole pipeline, by Enzyme: what gradient.cpp of enzyme_loops and enzyme_loops_threads call.
#pragma once
#include "_enzyme/pipeline.h"

// Adds the derivative of density_loss to gradient, (n, 2).
//
// To Enzyme the real arrays go with their adjoints; what holds integers or numbers of the problem is constant. The bounds
// of the loops stay run-time numbers: Enzyme enumerates the values of a counter whose bounds are known when it compiles,
// which takes it half a minute for a million particles.
template <typename Real>
static void add_gradient(const Real* positions, Real* gradient, const Parameters<Real>& p, std::int32_t n,
                         std::int32_t first, std::int32_t last) {
  Scratch<Real> scratch(n, p.cells_per_side);
  Buffer<Real> x_adjoint(n), y_adjoint(n);
  enzyme::__enzyme_autodiff<void>((void*)density_loss<Real>, enzyme_dup, positions, gradient,
                                  enzyme_dup, scratch.x.data, x_adjoint.data,
                                  enzyme_dup, scratch.y.data, y_adjoint.data,
                                  enzyme_const, &scratch.cells, enzyme_const, &p, n, first, last);
}
