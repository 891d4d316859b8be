// Lays out the recovery sheet. `restore --from` looks only for its lines: in the page, in the text,
// and in the result of scanning the codes.
#include "cli/sheet_page.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <ctime>

#include "cli/qr_code.h"
#include "cli/svg.h"
#include "oramcore/vault/recovery_sheet.h"

namespace s3oram {
namespace {

constexpr std::size_t kLinesOfACode = 10;  // few, so that a printed code can be scanned by hand

constexpr const char* kStyle =
    "body { font-family: sans-serif; max-width: 46em; margin: 2em auto; padding: 0 1em; }\n"
    "pre { font-size: 10.5pt; line-height: 1.45; }\n"
    "figure { display: inline-block; margin: 0 1em 1em 0; break-inside: avoid; }\n"
    "figure svg { width: 5.5cm; height: 5.5cm; display: block; }\n"
    "figcaption { font-size: 9pt; }\n"
    "ol li { margin-bottom: .4em; }\n";

std::string today() {
  const std::time_t now = std::time(nullptr);
  std::tm local{};
  char text[32] = "";
  if (::localtime_r(&now, &local)) std::strftime(text, sizeof text, "%Y-%m-%d", &local);
  return text;
}

/// The sheet's text besides its lines, as paragraphs and as steps.
struct Words {
  std::string title, what, care;
  std::vector<std::string> steps;
  std::string servers;
};

Words words_for(const Vault& vault, bool is_protected, std::size_t lines, std::size_t codes) {
  Words words;
  words.title = fmt::format("Recovery sheet of {}", vault.directory().string());
  words.what = fmt::format(
      "Made on {}. With this sheet and the servers named below, a lost s3oramfs vault can be "
      "recovered.",
      today());
  words.care =
      is_protected
          ? "It also needs the passphrase or key file of the vault as it was on that day, which is "
            "not on this sheet. Make a new sheet when that is changed, or a server moves."
          : "This vault has no passphrase: anyone who reads this sheet can read all files. Keep it "
            "locked up.";
  if (codes > 0)
    words.steps.push_back(
        fmt::format("Scan all {} codes into one file, sheet.txt, in any order, for instance with: "
                    "zbarcam --raw "
                    "--nodbus > sheet.txt",
                    codes));
  words.steps.push_back(fmt::format(
      "{} type the {} lines, with their numbers. There is no I, L, O or U among the letters, and "
      "blanks do not matter. The last four letters are a checksum: the next step names the lines "
      "that differ from the printed ones.",
      codes > 0 ? "Or" : "In a file, sheet.txt,", lines));
  words.steps.push_back("Run: s3oramfs restore --from sheet.txt VAULT");
  const auto& servers = vault.config().servers;
  for (std::size_t i = 0; i < servers.size(); ++i)
    words.servers +=
        fmt::format("{}server {} at {}", i == 0 ? "" : ", ", i + 1, servers[i].host_port);
  return words;
}

std::string as_text(const Words& words, const std::vector<std::string>& lines) {
  std::string text = fmt::format("{}\n\n{}\n{}\n\n", words.title, words.what, words.care);
  for (std::size_t i = 0; i < words.steps.size(); ++i)
    text += fmt::format("{}. {}\n", i + 1, words.steps[i]);
  return text + fmt::format("\nServers: {}.\n\n{}\n", words.servers, fmt::join(lines, "\n"));
}

std::string as_page(const Words& words, const std::vector<std::string>& lines,
                    const std::vector<std::string>& codes) {
  std::string page = fmt::format(
      "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n<title>{0}</title>\n"
      "<style>\n{1}</style></head>\n<body>\n<h1>{0}</h1>\n<p>{2}</p>\n<p>{3}</p>\n<ol>\n",
      escaped(words.title), kStyle, escaped(words.what), escaped(words.care));
  for (const std::string& step : words.steps) page += fmt::format("<li>{}</li>\n", escaped(step));
  page += fmt::format("</ol>\n<p>Servers: {}.</p>\n", escaped(words.servers));
  for (std::size_t i = 0; i < codes.size(); ++i)
    page += fmt::format("<figure>\n{}<figcaption>Code {} of {}</figcaption></figure>\n", codes[i],
                        i + 1, codes.size());
  return page + fmt::format("<pre>\n{}\n</pre>\n</body></html>\n", fmt::join(lines, "\n"));
}

}  // namespace

bool is_sheet_page(const std::string& file) { return file.ends_with(".html"); }

Result<std::string> sheet_of(const Vault& vault, const std::string& recovery, bool page) {
  S3O_ASSIGN(const auto slots, vault.slots());
  const bool is_protected = std::ranges::none_of(
      slots, [](const Vault::Slot& slot) { return slot.wrap.kind == KeyWrap::Kind::plain; });
  const auto lines = sheet_lines(recovery);
  std::vector<std::string> codes;
  for (std::size_t at = 0; page && at < lines.size(); at += kLinesOfACode) {
    const auto first = lines.begin() + static_cast<std::ptrdiff_t>(at);
    const auto last =
        first + static_cast<std::ptrdiff_t>(std::min(kLinesOfACode, lines.size() - at));
    S3O_ASSIGN(auto code, qr_code(fmt::format("{}\n", fmt::join(first, last, "\n")), QrKind::svg));
    codes.push_back(std::move(code));
  }
  const Words words = words_for(vault, is_protected, lines.size(), codes.size());
  return page ? as_page(words, lines, codes) : as_text(words, lines);
}

}  // namespace s3oram
