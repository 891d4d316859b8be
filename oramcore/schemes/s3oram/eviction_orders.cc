#include "oramcore/schemes/s3oram/eviction_orders.h"

#include "oramcore/sharing/shamir.h"

namespace s3oram {
namespace {

// Each server's message holds its shares of all steps, one after another.
std::vector<Bytes> matrix_orders(const VolumeParams& params, const std::vector<MatrixStep>& steps,
                                 Random& random) {
  const std::size_t z = params.bucket_size;
  const std::size_t matrix = 2 * z * z;
  Bytes ones(steps.size() * matrix);
  for (std::size_t step = 0; step < steps.size(); ++step)
    for (const MatrixStep::Move& move : steps[step].moves)
      ones[step * matrix + move.from * z + move.to] = 1;
  return create_shares(params.scheme, ones, random);
}

// pi = pi_3 after pi_2 after pi_1: pi_1 and pi_3 are random, so pi_2 tells who knows one of them
// nothing of pi.
std::vector<Bytes> shuffle_orders(const Permutation& pi, Random& random) {
  const Seed first = random.seed(), third = random.seed();
  Prg first_stream(first, as_bytes("pi 1")), third_stream(third, as_bytes("pi 3"));
  const Permutation pi_1 = random_permutation(pi.size(), first_stream);
  const Permutation pi_3 = random_permutation(pi.size(), third_stream);
  const Permutation pi_2 = then(then(inverse(pi_1), pi), inverse(pi_3));
  const std::vector<std::uint16_t> second(pi_2.begin(), pi_2.end());
  const Seed mask_first = random.seed(), mask_second = random.seed();
  const Seed line_of_1 = random.seed(), line_of_3 = random.seed();
  const ShuffleOrders orders[] = {{.first = first,
                                   .second = {},
                                   .third = third,
                                   .mask_first = mask_first,
                                   .mask_second = mask_second,
                                   .line_of_1 = line_of_1,
                                   .line_of_3 = {}},
                                  {.first = first,
                                   .second = second,
                                   .third = {},
                                   .mask_first = {},
                                   .mask_second = mask_second,
                                   .line_of_1 = line_of_1,
                                   .line_of_3 = line_of_3},
                                  {.first = {},
                                   .second = second,
                                   .third = third,
                                   .mask_first = mask_first,
                                   .mask_second = {},
                                   .line_of_1 = {},
                                   .line_of_3 = line_of_3}};
  std::vector<Bytes> encoded;
  for (const ShuffleOrders& each : orders) {
    Writer writer;
    const_cast<ShuffleOrders&>(each).fields(writer);
    encoded.push_back(writer.take());
  }
  return encoded;
}

}  // namespace

std::vector<Bytes> eviction_orders(const VolumeParams& params, const EvictionPlan& plan,
                                   Random& random) {
  if (const auto* permutation = std::get_if<Permutation>(&plan.movement))
    return shuffle_orders(*permutation, random);
  return matrix_orders(params, std::get<std::vector<MatrixStep>>(plan.movement), random);
}

}  // namespace s3oram
