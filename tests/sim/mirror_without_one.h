// The mirrors that tests of a server that is away use.
#pragma once

#include "tests/sim/mirror_in_use.h"

namespace s3oram::test {

/// Tests of several volumes (away_test.cc lists them).
class AwayTest : public MirrorInUse {};

/// Cases with one volume, because one server is away and another one fails, or because they are
/// long.
class AwayOfThree : public AwayTest {};

}  // namespace s3oram::test
