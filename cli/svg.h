// Draws SVG: the common part of this program's pictures.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace s3oram {

/// Returns `text` escaped for SVG and HTML, without control characters.
std::string escaped(const std::string& text);

/// An image that grows. Coordinates are pixels from the upper left corner.
class Svg {
 public:
  Svg(unsigned width, unsigned height);

  struct TextStyle {
    unsigned size = 12;
    std::string_view fill = "#222";
    std::string_view anchor = "start";  // start, middle or end
    std::string_view weight = "normal";
  };
  void text(double x, double y, const std::string& text, const TextStyle& style);
  void text(double x, double y, const std::string& words) { text(x, y, words, {}); }
  void rect(double x, double y, double width, double height, std::string_view fill);
  /// Draws the frame of a panel. Programs find the panel by `id`.
  void frame(double x, double y, double width, double height, const std::string& id);
  void line(double x1, double y1, double x2, double y2, std::string_view stroke);
  /// Draws dots of one colour, as one element.
  void dots(const std::vector<std::pair<double, double>>& at, double diameter,
            std::string_view stroke, double opacity = 1);

  /// Returns the whole image.
  std::string finished() const { return body_ + "</svg>\n"; }

 private:
  std::string body_;
};

}  // namespace s3oram
