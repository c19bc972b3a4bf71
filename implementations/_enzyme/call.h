// What a function called from JAX starts with: the numbers of the problem, memory, the status it returns.
//
// Compiled by Enzyme's own clang, without system headers: builtins stand in for <cmath> and <cstdlib>.
#pragma once

template <typename T> static inline T smaller(T a, T b) { return a < b ? a : b; }
template <typename T> static inline T larger(T a, T b) { return a > b ? a : b; }
static inline double remainder_of(double a, double b) { return __builtin_fmod(a, b); }
static inline float remainder_of(float a, float b) { return __builtin_fmodf(a, b); }
static inline double magnitude(double a) { return __builtin_fabs(a); }
static inline float magnitude(float a) { return __builtin_fabsf(a); }
static inline double square_root(double a) { return __builtin_sqrt(a); }
static inline float square_root(float a) { return __builtin_sqrtf(a); }

// The numbers of `harness.contract.problem.Problem`, in the order `parameters` in row.py writes them.
template <typename Real> struct Parameters {
  Real box_length, smoothing_length, normalisation, mass, rest_density;
  Real cells_per_side, cells_per_length, coordinate_limit;
};

template <typename Real> static inline const Parameters<Real>& parameters_of(const enzyme::tensor<Real, 8>& values) {
  return reinterpret_cast<const Parameters<Real>&>(values);
}

// Zeroed memory. Allocated outside the differentiated function and handed in by pointer: Enzyme gets integer memory
// wrong that is allocated within, and memory of each call's own lets threads call at once.
template <typename T> struct Buffer {
  T* data;
  explicit Buffer(std::int64_t size) : data(static_cast<T*>(__builtin_calloc(size, sizeof(T)))) {}
  Buffer(const Buffer&) = delete;
  ~Buffer() { __builtin_free(data); }
};

// Status of a call: 0, or -1 where a coordinate is not finite or too large (`Problem.require_valid`).
template <typename Real>
static inline std::int32_t status_of(const Real* positions, std::int32_t n, const Parameters<Real>& p) {
  for (std::int64_t i = 0; i < 2 * std::int64_t(n); ++i)
    if (!(magnitude(positions[i]) < p.coordinate_limit)) return -1;  // NaN compares false
  return 0;
}
