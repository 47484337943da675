#pragma once
#include <capstan/base/export.h>

#include "inference/evaluate.h"
#include "session/session.h"
#include "train/nonfinite.h"
#include "train/saving.h"
#include "train/step.h"

/// What each part of training takes of a job and its session, which both must outlive it.
CAPSTAN_BEGIN_NAMESPACE
namespace train {

inference::Feed feed_of(const session::Job& job);
inference::Generator generator_of(const session::Job& job, session::Session& session);
inference::Evaluator evaluator_of(const session::Job& job, session::Session& session, const inference::Feed& feed);
LoadedModel loaded_model(session::Session& session);
Step step_of(const session::Job& job, session::Session& session);
SavedRun saved_run(const session::Job& job, session::Session& session);
NonFiniteSetting nonfinite_setting(const session::Job& job, std::filesystem::path folder);

}  // namespace train
CAPSTAN_END_NAMESPACE
