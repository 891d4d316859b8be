// Writes the elements of an SVG image as text.
#include "cli/svg.h"

#include <fmt/format.h>

#include <iterator>

namespace s3oram {

std::string escaped(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '&')
      out += "&amp;";
    else if (c == '<')
      out += "&lt;";
    else if (c == '>')
      out += "&gt;";
    else if (c == '"')
      out += "&quot;";
    else if (static_cast<unsigned char>(c) >= ' ')
      out += c;
  }
  return out;
}

Svg::Svg(unsigned width, unsigned height)
    : body_(fmt::format(
          "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0}\" height=\"{1}\" "
          "viewBox=\"0 0 {0} {1}\" font-family=\"sans-serif\" font-size=\"12\" fill=\"#222\">\n"
          "<rect width=\"{0}\" height=\"{1}\" fill=\"#fff\"/>\n",
          width, height)) {}

void Svg::text(double x, double y, const std::string& text, const TextStyle& style) {
  fmt::format_to(std::back_inserter(body_),
                 "<text x=\"{:.1f}\" y=\"{:.1f}\" font-size=\"{}\" fill=\"{}\" text-anchor=\"{}\" "
                 "font-weight=\"{}\">{}</text>\n",
                 x, y, style.size, style.fill, style.anchor, style.weight, escaped(text));
}

void Svg::rect(double x, double y, double width, double height, std::string_view fill) {
  fmt::format_to(std::back_inserter(body_),
                 "<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\" "
                 "fill=\"{}\"/>\n",
                 x, y, width, height, fill);
}

void Svg::frame(double x, double y, double width, double height, const std::string& id) {
  fmt::format_to(std::back_inserter(body_),
                 "<rect id=\"{}\" x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\" "
                 "fill=\"#fafafa\" stroke=\"#ccc\"/>\n",
                 escaped(id), x, y, width, height);
}

void Svg::line(double x1, double y1, double x2, double y2, std::string_view stroke) {
  fmt::format_to(std::back_inserter(body_),
                 "<line x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\" stroke=\"{}\"/>\n",
                 x1, y1, x2, y2, stroke);
}

void Svg::dots(const std::vector<std::pair<double, double>>& at, double diameter,
               std::string_view stroke, double opacity) {
  if (at.empty()) return;
  body_ += "<path d=\"";
  for (const auto& [x, y] : at) fmt::format_to(std::back_inserter(body_), "M{:.1f} {:.1f}h0", x, y);
  fmt::format_to(std::back_inserter(body_),
                 "\" fill=\"none\" stroke=\"{}\" stroke-width=\"{}\" stroke-linecap=\"round\" "
                 "stroke-opacity=\"{}\" data-dots=\"{}\"/>\n",
                 stroke, diameter, opacity, at.size());
}

}  // namespace s3oram
