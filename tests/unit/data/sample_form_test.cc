#include "data/sample_form.h"

#include <capstan/base/error.h>
#include <capstan_catch.h>

#include "data/collate.h"

namespace sample_form_test {

using namespace capstan;
using data::FieldSpec;
using data::FieldValues;

namespace {

using Integers = std::vector<std::int64_t>;
using Floats = std::vector<float>;

const data::SampleForm form{2,
                            {{"weight", FieldSpec::Type::float32, FieldSpec::Per::token},
                             {"reward", FieldSpec::Type::float32, FieldSpec::Per::sequence},
                             {"group", FieldSpec::Type::int64, FieldSpec::Per::sample}}};

// Two sequences of three and four tokens.
data::Sample pair(std::int64_t group) {
  data::Sample sample;
  sample.id = "q1";
  sample.tokens = {1, 2, 3};
  sample.is_target = {false, true, true};
  sample.others = {{{1, 2, 4, 5}, {false, false, true, true}}};
  sample.fields = {Floats{0.5F, 0.25F, 0.125F, 9, 8, 7, 6}, Floats{1.5F, -2}, Integers{group}};
  return sample;
}

std::string fault(const data::Sample& sample) {
  try {
    data::check_form(sample, form);
  } catch (const Error& error) {
    return error.what();
  }
  return {};
}

}  // namespace

TEST_CASE("values of tokens stand where labels do; others are counted by sequence or sample, 0 in empty places") {
  const auto a = pair(70);
  const auto batch = data::collate({{&a, 0}, {nullptr, -1}}, {.pad_id = 0}, form);
  REQUIRE(batch.fields.size() == 3);
  CHECK(batch.fields[0].spec == form.fields[0]);
  CHECK(std::get<Floats>(batch.fields[0].values) == Floats{0.25F, 0.125F, 0, 8, 7, 6, 0, 0, 0, 0, 0, 0});
  CHECK(std::get<Floats>(batch.fields[1].values) == Floats{1.5F, -2, 0, 0});
  CHECK(std::get<Integers>(batch.fields[2].values) == Integers{70, 0});
}

TEST_CASE("packed: values of tokens go where their sequence is; sequences and samples keep their order") {
  const auto a = pair(70);
  const auto b = pair(80);
  const auto batch = data::pack({{nullptr, -1}, {&a, 0}, {&b, 1}}, {.pad_id = 0}, 5, form);
  REQUIRE(batch.rows == 2);
  REQUIRE(batch.cols == 5);
  CHECK(std::get<Floats>(batch.fields[0].values) == Floats{8, 7, 6, 0.25F, 0.125F, 8, 7, 6, 0.25F, 0.125F});
  CHECK(std::get<Floats>(batch.fields[1].values) == Floats{1.5F, -2, 1.5F, -2});
  CHECK(std::get<Integers>(batch.fields[2].values) == Integers{70, 80});
}

TEST_CASE("a sample with some of its sequences has their values of its fields") {
  const auto whole = pair(70);
  const auto second = data::with_only(whole, form, {1});
  CHECK(second.id == whole.id);
  CHECK(second.tokens == Integers{1, 2, 4, 5});
  CHECK(second.is_target == std::vector<bool>{false, false, true, true});
  CHECK(second.others.empty());
  CHECK(second.fields == std::vector<FieldValues>{Floats{9, 8, 7, 6}, Floats{-2}, Integers{70}});
  CHECK(data::with_only(form, {1}).sequences == 1);
  data::check_form(second, data::with_only(form, {1}));
  CHECK(data::with_only(form, {}).sequences == 2);
  for (const auto& all : {std::vector<std::size_t>{}, {0, 1}}) {
    const auto same = data::with_only(whole, form, all);
    CHECK(same.fields == whole.fields);
    REQUIRE(same.others.size() == 1);
    CHECK(same.others[0].tokens == whole.others[0].tokens);
  }
  auto lonely = whole;
  lonely.others.clear();
  CHECK_THROWS_WITH(data::with_only(lonely, form, {1}), Contains("has 1 sequence instead of 2"));
}

TEST_CASE("a sample of another form is refused, and the field named") {
  CHECK(fault(pair(1)).empty());
  auto lonely = pair(1);
  lonely.others.clear();
  CHECK_THAT(fault(lonely), Contains("sample 'q1' has 1 sequence instead of 2"));
  auto uneven = pair(1);
  uneven.others[0].is_target.pop_back();
  CHECK_THAT(fault(uneven), Contains("sample 'q1' has 4 tokens but is_target has 3"));
  auto without = pair(1);
  without.fields.pop_back();
  CHECK_THAT(fault(without), Contains("values of 2 fields instead of 3"));
  auto typed = pair(1);
  typed.fields[1] = Integers{1, 2};
  CHECK_THAT(fault(typed), Contains("int64 values for the field 'reward', which is declared as float32"));
  auto few = pair(1);
  few.fields[0] = Floats{1, 2, 3};
  CHECK_THAT(fault(few), Contains("3 values of the field 'weight' instead of 7") && Contains("one for each token"));
}

TEST_CASE("a form has a sequence, and fields with names of their own") {
  CHECK_NOTHROW(data::check_form(form));
  CHECK_THROWS_WITH(data::check_form(data::SampleForm{0, {}}), Contains("a sample has 0 sequences"));
  auto twice = form;
  twice.fields[2].name = "weight";
  CHECK_THROWS_WITH(data::check_form(twice), Contains("two fields of the name 'weight'"));
  twice.fields[2].name = "";
  CHECK_THROWS_WITH(data::check_form(twice), Contains("a field without a name"));
  twice.fields[2].name = "labels";
  CHECK_THROWS_WITH(data::check_form(twice), Contains("the field 'labels', as every batch has one of core"));
}

}  // namespace sample_form_test
