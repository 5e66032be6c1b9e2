// Tables, heat maps and charts: the right cells in the right places, with and without colour, and
// nothing that a hostile name could do to the terminal.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <sstream>
#include <vector>

#include "client/cli/chart.h"
#include "client/cli/event_printer.h"
#include "client/cli/heat_map.h"
#include "client/cli/table.h"

namespace headcount::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

std::vector<std::string> Lines(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

const Style kPlain{.color = false, .interactive = false, .width = 100};
const Style kColor{.color = true, .interactive = true, .width = 100};

TEST(Table, AlignsByCodePoints) {
  Table table({{"name"}, {"n", Table::Align::kRight}});
  table.AddRow({"é", "7"});
  table.AddRow({"longer", "123"});
  EXPECT_EQ(table.Render(kPlain), "name      n\né         7\nlonger  123\n");
}

TEST(Table, EscapesControlCharacters) {
  Table table({{"name"}});
  table.AddRow({"\x1b[31mred"});
  EXPECT_THAT(table.Render(kPlain), Not(HasSubstr("\x1b")));
}

TEST(HeatMap, ShadesByValueAndSeparatesKvGroups) {
  const std::vector<double> values = {0, 1, 0.5, 1, 0, NAN, 1, 0};
  const std::string text = RenderHeatMap(
      kPlain,
      {.layers = 2, .heads = 4, .kv_heads = 2, .values = values, .title = "t", .unit = "u"});
  const auto lines = Lines(text);
  ASSERT_EQ(lines.size(), 5u);
  EXPECT_EQ(lines[2], "    0    @@@ +++@@@");  // heads 0 1 | 2 3; 0 is blank, 0.5 in the middle
  EXPECT_EQ(lines[3], "    1     ?  @@@   ");
  EXPECT_THAT(lines[4], HasSubstr("0 "));
  EXPECT_THAT(lines[4], HasSubstr(" 1 u"));
}

TEST(HeatMap, MarksHeadsInactiveInHalfOfTheSamples) {
  const std::vector<double> share = {0.2, 0.5, 0.9};
  const std::string text = RenderHeatMap(kPlain, {.layers = 1,
                                                  .heads = 3,
                                                  .kv_heads = 3,
                                                  .values = share,
                                                  .title = "t",
                                                  .unit = "",
                                                  .percent = true,
                                                  .inactive = share});
  EXPECT_EQ(Lines(text)[2], "    0 ::: +x+ @x@");
}

TEST(HeatMap, ColourOnlyWhereThereIsOne) {
  const std::vector<double> values = {0, 1};
  const HeatMap map{
      .layers = 1, .heads = 2, .kv_heads = 2, .values = values, .title = "t", .unit = ""};
  EXPECT_THAT(RenderHeatMap(kColor, map), HasSubstr("\x1b[48;2;68;1;84m"));
  EXPECT_THAT(RenderHeatMap(kPlain, map), Not(HasSubstr("\x1b")));
}

TEST(HeatMap, AllEqualValuesDoNotDivideByZero) {
  const std::vector<double> values = {2, 2};
  EXPECT_THAT(
      RenderHeatMap(
          kPlain,
          {.layers = 1, .heads = 2, .kv_heads = 2, .values = values, .title = "t", .unit = ""}),
      HasSubstr("2 "));
}

TEST(Chart, DrawsEndsWhereTheyBelong) {
  Chart chart;
  chart.lines = {{"down", {0, 30}, {80, 50}}, {"flat", {0, 15}, {80, 80}}};
  chart.reference = 80;
  chart.height = 4;
  const auto lines = Lines(RenderChart(kPlain, chart));
  ASSERT_GE(lines.size(), 6u);
  EXPECT_THAT(lines[1], HasSubstr("80.0"));
  EXPECT_EQ(lines[1][9], 'b');      // both start at the baseline; the later line is on top
  EXPECT_EQ(lines[4].back(), 'a');  // the end of "down" is the lowest, rightmost point
  EXPECT_THAT(lines[4], HasSubstr("50.0"));
}

TEST(Chart, NothingToDrawIsEmpty) {
  Chart chart;
  chart.lines = {{"none", {0}, {NAN}}};
  chart.reference = NAN;
  EXPECT_EQ(RenderChart(kPlain, chart), "");
}

TEST(Duration, ReadsLikeAClock) {
  EXPECT_EQ(DurationText(0), "0:00");
  EXPECT_EQ(DurationText(67.4), "1:07");
  EXPECT_EQ(DurationText(7439), "2:03:59");
  EXPECT_EQ(DurationText(-5), "0:00");
}

TEST(Viridis, EndsAndNaN) {
  EXPECT_EQ(Viridis(0).r, 68);
  EXPECT_EQ(Viridis(1).r, 253);
  EXPECT_EQ(Viridis(NAN).r, 68);
}

}  // namespace
}  // namespace headcount::cli
