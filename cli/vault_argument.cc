// Tells names of mounts from paths.
#include "cli/vault_argument.h"

#include <cstdlib>
#include <iostream>

#include "oramcore/base/human.h"

namespace s3oram {

std::string variable_of(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

Result<std::optional<MountSettings>> named_mount(const std::string& text) {
  if (text.find('/') != std::string::npos) return std::nullopt;
  std::error_code error;
  const bool is_there = std::filesystem::exists(text, error);
  const auto file = settings_folder() / text;
  if (is_there && std::filesystem::exists(file, error))
    std::cerr << fmt::format(
        "s3oramfs: {0} is taken for the one in this directory, and not for the name in {1}: write "
        "./{0}, or call the command elsewhere\n",
        printable(text), printable(file.parent_path().string()));
  if (is_there) return std::nullopt;
  return find_mount_settings(text);
}

CLI::Validator by_name(CredentialOptions* credential) {
  return {[credential](std::string& text) {
            const auto named = named_mount(text);
            if (!named) return named.error().message;
            if (!*named) return std::string();
            text = (*named)->vault;
            if (credential) credential->set_default((*named)->passphrase, (*named)->keyfile);
            return std::string();
          },
          ""};
}

}  // namespace s3oram
