// What `s3oramfs bench` has measured: as a table, as JSON, and as a picture.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "cli/bench_run.h"

namespace s3oram {

struct BenchColumn {
  std::string directory;  // as it was given
  std::string filesystem;
  std::vector<Measurement> measurements;  // the same ones in every column
};

/// One line a measurement, the directories side by side.
std::string bench_table(const std::vector<BenchColumn>& columns);

/// Members keep their names and meanings.
nlohmann::ordered_json bench_json(const std::vector<BenchColumn>& columns,
                                  const BenchOptions& options);

/// An SVG image: for each measurement a bar of each directory.
std::string bench_picture(const std::vector<BenchColumn>& columns);

/// "0.35", "7.6", "1250": three digits or so.
std::string three_digits(double value);

}  // namespace s3oram
