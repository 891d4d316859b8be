// A server's config file: lines `name = value` of the names of its options. A value is a "text", a
// bare word, or a list ["a", "b"], which may go over several lines; of a switch the name is enough.
// Empty lines and what follows # are skipped.
#pragma once

#include <CLI/CLI.hpp>
#include <vector>

namespace s3oram {

/// For CLI::App::config_formatter(). Every line is checked by itself; errors (CLI::ConfigError)
/// say the file, the line, what is wrong with it and what was probably meant.
class ConfigFile : public CLI::ConfigTOML {
 public:
  /// `app` has the options, and outlives this.
  explicit ConfigFile(const CLI::App& app) : app_(app) {}

  std::vector<CLI::ConfigItem> from_config(std::istream& in) const override;

 private:
  const CLI::App& app_;
};

}  // namespace s3oram
