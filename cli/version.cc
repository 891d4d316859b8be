#include <iostream>

#include "cli/command.h"

namespace s3oram {

Status run_version(const Args& args) {
  CLI::App app("Shows the version.", "s3oramfs version");
  auto parsed = parse(app, args);
  if (!parsed) return fail(std::move(parsed).error());
  if (*parsed) std::cout << "s3oramfs " S3O_VERSION "\n";
  return {};
}

}  // namespace s3oram
