// s3oramfs version: prints the version.
#include <iostream>

#include "cli/command.h"

namespace s3oram {

Status run_version(const Args& args) {
  CLI::App app("Shows the version.", "s3oramfs version");
  S3O_ASSIGN(auto parsed, parse(app, args));
  if (parsed) std::cout << "s3oramfs " S3O_VERSION "\n";
  return {};
}

}  // namespace s3oram
