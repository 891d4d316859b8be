// Checks for results that must be good, or else the test says why they are not.
#pragma once

#include <gtest/gtest.h>

/// Ends the test if a Status or Result is an error.
#define ASSERT_GOOD(expr)                                  \
  do {                                                     \
    const auto& s3o_status = (expr);                       \
    ASSERT_TRUE(s3o_status) << s3o_status.error().message; \
  } while (false)
