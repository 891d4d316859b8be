// Estimates how many guesses a passphrase takes, without keeping a copy of any part of it.
#include "oramcore/vault/passphrase_strength.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace s3oram {
namespace {

/// With this many bits, some hundred processors that try one passphrase in 0.7 s each need decades.
constexpr double kStrong = 50;
constexpr double kForeseen = 1;  // bits of a letter that can be expected from those before it

/// The first guesses, in lower case; digits and punctuation are often appended to them.
constexpr std::array<std::string_view, 48> kCommonest = {"",
                                                         "password",
                                                         "passphrase",
                                                         "passwort",
                                                         "passw",
                                                         "qwerty",
                                                         "qwertyuiop",
                                                         "qwertz",
                                                         "azerty",
                                                         "asdfgh",
                                                         "asdf",
                                                         "zxcvbn",
                                                         "letmein",
                                                         "iloveyou",
                                                         "welcome",
                                                         "admin",
                                                         "root",
                                                         "login",
                                                         "master",
                                                         "secret",
                                                         "test",
                                                         "user",
                                                         "guest",
                                                         "default",
                                                         "changeme",
                                                         "abc",
                                                         "monkey",
                                                         "dragon",
                                                         "football",
                                                         "baseball",
                                                         "sunshine",
                                                         "princess",
                                                         "shadow",
                                                         "superman",
                                                         "batman",
                                                         "trustno",
                                                         "hello",
                                                         "freedom",
                                                         "whatever",
                                                         "starwars",
                                                         "pokemon",
                                                         "computer",
                                                         "internet",
                                                         "google",
                                                         "hunter",
                                                         "summer",
                                                         "correcthorsebatterystaple",
                                                         "s3oramfs"};

char small(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }
bool is_letter(char c) { return small(c) >= 'a' && small(c) <= 'z'; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }

bool is_common(std::string_view text) {
  while (!text.empty() && !is_letter(text.back())) text.remove_suffix(1);
  while (!text.empty() && !is_letter(text.front())) text.remove_prefix(1);
  return std::ranges::any_of(kCommonest, [&](std::string_view common) {
    return !common.empty() &&
           std::ranges::equal(text, common, [](char a, char b) { return small(a) == b; });
  });
}

/// Returns the bits of a letter that is chosen at random among all kinds of letters that occur.
double bits_of_a_letter(std::string_view text) {
  constexpr double kSigns = 33, kForeign = 100;
  const auto any = [&](auto is) { return std::ranges::any_of(text, is) ? 1.0 : 0.0; };
  const double kinds =
      26 * any([](char c) { return c >= 'a' && c <= 'z'; }) +
      26 * any([](char c) { return c >= 'A' && c <= 'Z'; }) + 10 * any(is_digit) +
      kSigns * any([](char c) { return c >= ' ' && c <= '~' && !is_letter(c) && !is_digit(c); }) +
      kForeign * any([](char c) { return c < ' ' || c > '~'; });
  return std::log2(std::max(kinds, 2.0));
}

/// Returns whether the letter at `i` repeats the one before it, is next to it in the alphabet (abc,
/// 321), or follows it as earlier in the text.
bool is_foreseen(std::string_view text, std::size_t i) {
  if (i == 0) return false;
  if (std::abs(text[i] - text[i - 1]) <= 1) return true;
  return text.substr(0, i).find(text.substr(i - 1, 2)) != std::string_view::npos;
}

double bits(std::string_view text) {
  const double each = bits_of_a_letter(text);
  double sum = 0;
  for (std::size_t i = 0; i < text.size(); ++i) sum += is_foreseen(text, i) ? kForeseen : each;
  return sum;
}

}  // namespace

std::string weakness_of(std::string_view passphrase) {
  const char* advice = "five or six words drawn at random from a list are strong";
  if (is_common(passphrase))
    return std::string("this passphrase is among the first that are tried: ") + advice;
  if (bits(passphrase) < kStrong)
    return std::string(
               "someone who has the vault may guess this passphrase: a longer one takes longer; ") +
           advice;
  return {};
}

}  // namespace s3oram
