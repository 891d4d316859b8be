// The GF(2^8) of field/gf256.h, for computations with NTL.
#pragma once

#include <NTL/GF2E.h>

#include <cstdint>

namespace s3oram::ntl {

/// Returns the field. Threads may share a context, but each has its own current one: a function
/// that computes makes this one current for its duration (NTL::GF2EPush).
const NTL::GF2EContext& field();

NTL::GF2E element(std::uint8_t byte);
std::uint8_t byte(const NTL::GF2E& element);

}  // namespace s3oram::ntl
