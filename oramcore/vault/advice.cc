// Adds the command that helps to an error about a damaged vault.
#include "oramcore/vault/advice.h"

#include <system_error>

#include "oramcore/base/human.h"

namespace s3oram {

Error advise_on_keys(Error error, const std::filesystem::path& vault) {
  if (error.code != Errc::damaged_vault) return error;
  std::error_code unknown;
  if (std::filesystem::is_directory(vault / "servers", unknown))  // a local vault
    error.message += "; put it back from a copy of the vault";
  else
    error.message += fmt::format(
        "; `s3oramfs restore --from FILE {}` puts it back, where FILE is what `s3oramfs backup "
        "--keys` has written",
        shell_word(vault));
  return error;
}

Error advise_on_database(Error error, const std::filesystem::path& vault) {
  if (error.code != Errc::damaged_vault) return error;
  std::error_code unknown;
  const bool is_there = std::filesystem::exists(vault / "vault.db", unknown);
  error.message += fmt::format(
      "; `s3oramfs fsck {0}` says what can be mended, and `s3oramfs restore{1} {0}` rebuilds "
      "vault.db from what the servers hold",
      shell_word(vault), is_there ? " --force" : "");
  return error;
}

std::string advice_on_store(const VolumeParams& params, Party server,
                            const std::filesystem::path& vault) {
  if (params.is_ring())
    return "it had the only copy of all data: bring it back from a backup that is as new as the "
           "vault";
  return fmt::format("to repair it from the others: s3oramfs repair --server {} {}", server,
                     shell_word(vault));
}

}  // namespace s3oram
