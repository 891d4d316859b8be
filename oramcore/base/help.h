// Common parts of the options of all programs. --help fits a terminal of 80 columns if no
// description is longer than 52 characters.
#pragma once

#include <CLI/CLI.hpp>
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "oramcore/base/human.h"

namespace s3oram {

/// Makes parsing refuse empty values, which come from scripts with unset variables, except for the
/// option `but`.
inline void refuse_empty_values(CLI::App& app, const CLI::Option* but = nullptr) {
  const auto has_one = [but](const CLI::Option* option) {
    return option->get_type_size() > 0 && option != but;
  };
  for (CLI::Option* option : app.get_options(has_one))
    option->check([](const std::string& text) {
      return text.empty() ? "its value is empty" : std::string();
    });
}

/// Accepts a size as parse_size() does, and converts it to the number of bytes.
inline CLI::Validator size_from(std::uint64_t least, std::uint64_t most = UINT64_MAX) {
  return {[=](std::string& text) {
            const auto bytes = parse_size(text, least, most);
            if (!bytes) return bytes.error().message;
            text = std::to_string(*bytes);
            return std::string();
          },
          ""};
}

/// The group of options that --help leaves out, because they are seldom used and it has to fit a
/// terminal. (In a group without a name, CLI11 also leaves their names out of its errors.)
inline constexpr const char* kSeldomUsed = "Seldom used";

class HelpFormatter final : public CLI::Formatter {
 public:
  /// `needed` lists the options that the usage line shows.
  explicit HelpFormatter(std::string needed = "") : needed_(std::move(needed)) { column_width(28); }

  std::string make_usage(const CLI::App* app, std::string name) const override {
    return CLI::Formatter::make_usage(app, needed_.empty() ? name : name + " " + needed_);
  }

  // Shows the name of the value and the default, and nothing else.
  std::string make_option_opts(const CLI::Option* option) const override {
    if (option->get_positional() || option->get_type_size() == 0) return "";
    const std::string value = option->get_default_str();
    return " " + type_of(*option) + (value.empty() ? "" : " (" + value + ")");
  }

  std::string make_group(std::string group, bool is_positional,
                         std::vector<const CLI::Option*> options) const override {
    if (group == kSeldomUsed) return "";
    return CLI::Formatter::make_group(std::move(group), is_positional, std::move(options));
  }

  // Puts one empty line between groups, and none at the end.
  std::string make_help(const CLI::App* app, std::string name,
                        CLI::AppFormatMode mode) const override {
    std::string text = CLI::Formatter::make_help(app, std::move(name), mode);
    for (std::size_t at = 0; (at = text.find("\n\n\n", at)) != std::string::npos;)
      text.erase(at, 1);
    while (text.ends_with("\n\n")) text.pop_back();
    return text;
  }

 private:
  // Removes what CLI::Range adds: "A:INT in [1 - 9]" becomes A; the same for UINT.
  static std::string type_of(const CLI::Option& option) {
    const std::string name = option.get_type_name();
    return name.substr(0, std::min(name.find(":INT in "), name.find(":UINT in ")));
  }

  std::string needed_;
};

}  // namespace s3oram
