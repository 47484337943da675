#include "train/step.h"

#include "train/evaluate.h"

namespace capstan::train {

Step::Step(const setup::Job& job, setup::Session& session)
    : job_(job),
      session_(session),
      rule_(std::make_unique<AdamW>(*job.optimizer)),
      updates_(*job.optimizer, session.device),
      counts_(speaks_for_coordinate(job)) {}

StepResult Step::gradients(const StepInput& input, std::int64_t target_tokens) {
  const auto doubles = at::TensorOptions().dtype(at::kDouble).device(session_.device);
  auto loss_sum = at::zeros({}, doubles);
  // A step without any target still runs: its gradients are zero.
  const double divisor = static_cast<double>(std::max<std::int64_t>(1, target_tokens));
  for (std::size_t i = 0; i < input.micro.size(); ++i) {
    session_.engine->begin_micro_step(static_cast<std::int64_t>(i));
    auto batch = to_device(input.micro[i], session_.device);
    batch.seed = static_cast<std::uint64_t>(job_.run->seed);
    batch.step = input.step;
    batch.training = true;
    const auto loss = session_.runner->forward(batch).states;
    session_.runner->backward(loss, at::full({}, 1.0 / divisor, loss.options()));
    loss_sum += loss.detach().to(at::kDouble);
  }
  StepResult result;
  result.norms = session_.engine->squared_grad_norms();
  result.numbers = at::stack({result.norms.sum(), counts_ ? loss_sum : at::zeros({}, doubles)});
  session_.world_device->all_reduce(result.numbers, comm::ReduceOp::sum, "all-reduce gradient norm and loss");
  return result;
}

StepResult Step::run(const StepInput& input, std::int64_t target_tokens, double lr) {
  auto result = gradients(input, target_tokens);
  session_.engine->update(*rule_, updates_.next(lr, result.numbers[0].sqrt()));
  return result;
}

}  // namespace capstan::train
