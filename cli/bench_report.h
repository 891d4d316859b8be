// Reports what `s3oramfs bench` has measured: as a table, as JSON, and as a picture.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "cli/bench_run.h"

namespace s3oram {

struct BenchColumn {
  std::string directory;  // as the user gave it
  std::string filesystem;
  std::vector<Measurement> measurements;  // the same ones in every column
};

/// Returns a table with one line for each measurement, and the directories side by side.
std::string bench_table(const std::vector<BenchColumn>& columns);

/// Returns the results as JSON. Members keep their names and meanings.
nlohmann::ordered_json bench_json(const std::vector<BenchColumn>& columns,
                                  const BenchOptions& options);

/// Returns an SVG image with, for each measurement, a bar for each directory.
std::string bench_picture(const std::vector<BenchColumn>& columns);

/// Returns the number with about three digits: "0.35", "7.6", "1250".
std::string three_digits(double value);

}  // namespace s3oram
