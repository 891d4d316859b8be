// Measures the lines, and chooses the volume's numbers again.
#include "cli/choose_by_lines.h"

#include "oramcore/volume/measure_lines.h"

namespace s3oram {

Status choose_by_lines(const InitOptions& options, Vault& vault, const VaultKeys& keys,
                       const VolumeOptions& how, Choice& choice) {
  const WantedLines wanted{.line = options.line.empty(),
                           .between = options.between == 0 && choice.params.scheme.servers > 1};
  if (!options.measures() || (!wanted.line && !wanted.between)) return {};
  S3O_ASSIGN(const auto found, measure_lines(vault, keys, how, wanted));
  if (found.is_made) {
    S3O_ASSIGN(choice, choose_as_in(options, vault.config().params));
    return {};
  }
  S3O_ASSIGN(choice, choose_numbers(options, lines_of(found.lines)));
  choice.why = to_text(found.lines) + choice.why;
  return vault.set_params(choice.params);
}

}  // namespace s3oram
