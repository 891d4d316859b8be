// A directory for vaults, configurations to make them from, and passphrases that cost nothing.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <string>

#include "oramcore/vault/vault.h"
#include "tests/base/temporary_directory.h"

namespace s3oram {

inline constexpr KdfLimits kQuick{1, 8192};

class VaultFixture : public testing::Test {
 protected:
  static VaultConfig local_config() {
    VaultConfig config;
    config.volume.fill(0xab);
    config.params = {Scheme{1, 3}, 32768, 162, 64};
    config.local = true;
    config.servers.resize(3);
    return config;
  }
  static VaultConfig remote_config() {
    VaultConfig config = local_config();
    config.local = false;
    for (std::size_t i = 0; i < 3; ++i) {
      config.servers[i].host_port = "s" + std::to_string(i) + ".example:5760";
      config.servers[i].key.fill(static_cast<std::uint8_t>(i + 1));
    }
    return config;
  }
  static Credential passphrase(const std::string& text) {
    return {Credential::Kind::passphrase, text, {}};
  }

  TemporaryDirectory root_;
};

}  // namespace s3oram
