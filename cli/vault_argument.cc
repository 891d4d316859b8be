// Distinguishes names of mounts from paths.
#include "cli/vault_argument.h"

#include <cstdlib>
#include <iostream>

#include "oramcore/base/human.h"
#include "oramcore/base/mountinfo.h"

namespace s3oram {

std::string variable_of(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

Result<std::optional<MountSettings>> named_mount(const std::string& text) {
  if (text.find('/') != std::string::npos) return std::nullopt;
  std::error_code error;
  const auto file = settings_folder() / text;
  // If there is no such settings file, do not touch the path, because it may be a mount whose
  // daemon hangs.
  if (!std::filesystem::exists(file, error)) return std::nullopt;
  S3O_ASSIGN(auto named, find_mount_settings(text));
  if (!named) return named;
  const auto path = as_mount_point(text);
  if (path == as_mount_point(named->vault)) return named;
  if (!named->directory.empty() && path == as_mount_point(named->directory)) return named;
  if (!std::filesystem::exists(text, error)) return named;
  std::cerr << fmt::format(
      "s3oramfs: {0} means the one in this directory, not the name in {1}: write "
      "./{0}, or run the command elsewhere\n",
      printable(text), printable(file.parent_path().string()));
  return std::nullopt;
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
