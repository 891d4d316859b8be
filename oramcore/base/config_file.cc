// Reads files of settings line by line, and checks them by the rules of the options that they set.
#include "oramcore/base/config_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <sstream>
#include <string>
#include <string_view>

#include "oramcore/base/spelling.h"

namespace s3oram {
namespace {

using CLI::detail::trim_copy;

bool is_switch(const CLI::Option& option) { return option.get_items_expected_min() == 0; }
bool is_repeatable(const CLI::Option& option) { return option.get_items_expected_max() > 1; }

/// Reads one file once.
class Lines {
 public:
  Lines(const CLI::App& app, const ConfigFile::Trial& trial, const std::string& help,
        std::istream& in, std::string where)
      : app_(app), trial_(trial), help_(help), in_(in), where_(std::move(where)) {}

  /// Reads all settings. Throws CLI::ConfigError.
  std::vector<CLI::ConfigItem> read() {
    while (next()) {
      if (line_.empty() || line_.front() == '#' || line_.front() == ';') continue;
      take();
    }
    return std::move(items_);
  }

 private:
  bool next() {
    if (!std::getline(in_, line_)) return false;
    ++number_;
    line_ = trim_copy(line_);
    return true;
  }

  void take() {
    const unsigned begun = number_;
    if (line_.front() == '[')
      wrong(begun, fmt::format("{}: there are no sections; leave this line out", line_));
    const auto equals = line_.find('=');
    const std::string name = trim_copy(
        line_.substr(0, equals == std::string::npos ? line_.find_first_of(" \t#") : equals));
    const CLI::Option& option = known(name, begun);
    std::string value = "true";
    if (equals != std::string::npos)
      value = complete(trim_copy(line_.substr(equals + 1)), begun);
    else if (!is_switch(option) || !says_no_more(name))
      wrong(begun, fmt::format("{}: write {} = VALUE", line_, name));
    std::istringstream whole(name + " = " + value);
    auto parsed = reader_.from_config(whole);
    if (parsed.empty() || parsed.front().inputs.empty() || parsed.front().inputs.front().empty())
      wrong(begun, fmt::format("\"{}\" has no value: write {} = VALUE", name, name));
    for (const std::string& input : parsed.front().inputs) check(name, input, begun);
    add(std::move(parsed.front()), option, begun);
  }

  bool says_no_more(const std::string& name) const {
    const std::string rest = trim_copy(line_.substr(name.size()));
    return rest.empty() || rest.front() == '#';
  }

  const CLI::Option& known(const std::string& name, unsigned line) const {
    std::vector<std::string> names;
    for (const CLI::Option* option : app_.get_options()) {
      if (!option->get_configurable() || option->get_lnames().empty()) continue;
      if (option->get_lnames().front() == name) return *option;
      names.push_back(option->get_lnames().front());
    }
    const std::string nearest = nearest_word(name, names);
    wrong(line, fmt::format("no such setting \"{}\": {}", name,
                            nearest.empty() ? help_ + " lists the settings, as options"
                                            : "did you mean \"" + nearest + "\"?"));
  }

  /// Returns the complete value. A text is on one line; a list extends to its ].
  std::string complete(std::string value, unsigned begun) {
    if (value.starts_with('[')) {
      while (!trim_copy(value.substr(0, value.find('#'))).ends_with(']')) {
        value = trim_copy(value.substr(0, value.find('#')));
        if (!next()) wrong(begun, "the list does not end: a ] is missing");
        value += ' ' + line_;
      }
      return value;
    }
    if (!value.starts_with('"') && !value.starts_with('\'')) return value;
    const auto end = value.find(value.front(), 1);
    if (end == std::string::npos)
      wrong(begun, fmt::format("the text {} does not end: a {} is missing", value, value.front()));
    const std::string rest = trim_copy(value.substr(end + 1));
    if (!rest.empty() && rest.front() != '#')
      wrong(begun, fmt::format("after the text {} comes {}", value.substr(0, end + 1), rest));
    value.resize(end + 1);
    if (value.find('#') != std::string::npos)  // a comment to CLI11
      wrong(begun, fmt::format("there can be no # in the text {}", value));
    return value;
  }

  /// Checks the value by the option's own rules.
  void check(const std::string& name, const std::string& value, unsigned line) const {
    try {
      trial_("--" + name + "=" + value);
    } catch (const CLI::ConversionError&) {
      wrong(line,
            fmt::format("{} = \"{}\": {} is needed", name, value,
                        is_switch(*app_.get_option("--" + name)) ? "true or false" : "a number"));
    } catch (const CLI::ParseError& error) {
      std::string why = error.what();
      if (const std::string prefix = "--" + name + ": "; why.starts_with(prefix))
        why.erase(0, prefix.size());
      wrong(line, fmt::format("{} = \"{}\": {}", name, value, why));
    }
  }

  void add(CLI::ConfigItem item, const CLI::Option& option, unsigned line) {
    const auto [former, fresh] = lines_.emplace(item.name, line);
    if (fresh) return items_.push_back(std::move(item));
    if (!is_repeatable(option))
      wrong(line, fmt::format("\"{}\" is set in line {} already", item.name, former->second));
    const auto same = std::find_if(items_.begin(), items_.end(), [&](const CLI::ConfigItem& other) {
      return other.name == item.name;
    });
    same->inputs.insert(same->inputs.end(), item.inputs.begin(), item.inputs.end());
  }

  [[noreturn]] void wrong(unsigned line, std::string what) const {
    // The text may contain anything.
    const auto unprintable = [](unsigned char c) { return c < ' ' || c == 0x7f; };
    std::ranges::replace_if(what, unprintable, '?');
    throw CLI::ConfigError(fmt::format("{}: line {}: {}", where_, line, what),
                           CLI::ExitCodes::ConfigError);
  }

  const CLI::App& app_;
  const ConfigFile::Trial& trial_;
  const std::string& help_;
  const CLI::ConfigTOML reader_;  // reads a line that is sound
  std::istream& in_;
  const std::string where_;
  std::string line_;
  unsigned number_ = 0;
  std::vector<CLI::ConfigItem> items_;
  std::map<std::string, unsigned> lines_;  // the line where each was set
};

}  // namespace

std::vector<CLI::ConfigItem> ConfigFile::from_config(std::istream& in) const {
  const CLI::Option* file = app_.get_config_ptr();
  return read(in, file && !file->empty() ? file->results().back() : "config");
}

std::vector<CLI::ConfigItem> ConfigFile::read(std::istream& in, const std::string& where) const {
  return Lines(app_, trial_, help_, in, where).read();
}

}  // namespace s3oram
