// Keeps track of which rules are left out, in a build with S3O_RULE_SWITCHES.
#include "oramcore/base/rules.h"

#ifdef S3O_RULE_SWITCHES

#include <algorithm>
#include <cstdlib>
#include <iostream>
#include <string>

namespace s3oram {
namespace {

using Switches = std::array<bool, kRuleNames.size()>;

/// Refuses a misspelt name, because the test would then test nothing.
Switches from_environment() {
  Switches left_out{};
  const char* value = std::getenv("S3ORAMFS_LEAVE_OUT");
  std::string_view rest = value != nullptr ? value : "";
  while (!rest.empty()) {
    const auto comma = std::min(rest.find(','), rest.size());
    const std::string_view name = rest.substr(0, comma);
    const auto at = std::find(kRuleNames.begin(), kRuleNames.end(), name);
    if (at == kRuleNames.end()) {
      std::cerr << "S3ORAMFS_LEAVE_OUT: no rule is called " << name << "\n";
      std::exit(2);
    }
    left_out[static_cast<std::size_t>(at - kRuleNames.begin())] = true;
    rest.remove_prefix(std::min(comma + 1, rest.size()));
  }
  return left_out;
}

Switches& switches() {
  static Switches left_out = from_environment();
  return left_out;
}

}  // namespace

bool rule_holds(Rule rule) { return !switches()[static_cast<std::size_t>(rule)]; }

void leave_out(Rule rule, bool out) { switches()[static_cast<std::size_t>(rule)] = out; }

}  // namespace s3oram

#endif
