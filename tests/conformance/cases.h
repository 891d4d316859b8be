// The table of cases, one file for each subject. A case runs as root, in a process of its own, and
// in a fresh directory of its own, which is the current one.
#pragma once

#include <sys/types.h>

#include <span>

#include "tests/conformance/observer.h"

namespace s3oram::conformance {

// Ordinary users, who need not exist.
constexpr uid_t kUser = 12'345;
constexpr gid_t kGroup = 23'456, kOtherGroup = 23'457;

std::span<const Case> acl_cases();
std::span<const Case> open_cases();
std::span<const Case> name_cases();
std::span<const Case> rename_cases();
std::span<const Case> link_cases();
std::span<const Case> long_name_cases();
std::span<const Case> time_cases();
std::span<const Case> permission_cases();
std::span<const Case> set_id_cases();
std::span<const Case> size_cases();
std::span<const Case> data_cases();
std::span<const Case> map_cases();
std::span<const Case> lock_cases();
std::span<const Case> xattr_cases();
std::span<const Case> special_cases();
std::span<const Case> directory_cases();
std::span<const Case> volume_cases();
std::span<const Case> together_cases();

}  // namespace s3oram::conformance
