// max sum_w z_w over 0 <= z_w <= 1 (or z_w = 0) and packing rows sum_w a_w z_w <= b, solved by a dense dual
// simplex with bounded variables and the long-step ratio test. Rows are added between solves, which keeps the
// basis. Plain doubles: whoever uses its multipliers checks them (certificate.h).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace laxity::bounds {

class PackingLp {
 public:
  /// Forgets all rows. `open`: the z that may be 1.
  void reset(std::span<const std::uint8_t> open);
  /// By workflow; `capacity` > 0.
  void addRow(std::span<const double> work, double capacity);
  /// Back to an optimum after rows were added. False where it gave up: values and multipliers are of its last
  /// basis.
  bool solve();

  std::span<const double> z() const { return z_; }            ///< by workflow, of the last solve
  std::span<const double> multipliers() const { return y_; }  ///< by row, of the last solve
  double value() const { return value_; }

 private:
  static constexpr double kTolerance = 1e-9;

  // Variables: 0 .. n-1 are z, n + i is the slack of row i. Each row of the tableau says
  //   basic = constant - sum_j entry_j * nonbasic_j.
  double* row(std::size_t i) { return tableau_.data() + i * columns_; }
  double upper(std::uint32_t variable) const;
  double valueOf(std::size_t column) const { return atUpper_[column] != 0 ? 1 : 0; }
  bool step(std::size_t r);
  void flip(std::size_t column);
  void pivot(std::size_t r, std::size_t column, double leavingValue);
  void read();

  std::size_t workflows_ = 0;
  std::size_t columns_ = 0;  ///< nonbasic variables: as many as there are open z
  std::vector<std::uint32_t> nonbasic_;
  std::vector<std::uint8_t> atUpper_;
  std::vector<double> reduced_;  ///< by column
  std::vector<std::uint32_t> basic_;
  std::vector<double> values_;  ///< of the basic variables
  std::vector<double> tableau_;
  std::vector<double> scale_;  ///< capacity by row
  std::vector<double> z_;
  std::vector<double> y_;
  std::vector<std::uint32_t> candidates_;
  double value_ = 0;
};

}  // namespace laxity::bounds
