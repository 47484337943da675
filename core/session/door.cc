#include "session/door.h"

#include "session/cut_answers.h"
#include "session/run_to_export.h"
#include "session/split_view.h"

namespace capstan::session {
namespace {

constexpr Door the_door{open_split_view, open_run_to_export, cut_answers_text};

}  // namespace
}  // namespace capstan::session

extern "C" [[gnu::visibility("default")]] const void* capstan_session() { return &capstan::session::the_door; }
