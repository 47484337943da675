#include "resume/door.h"

#include "resume/changes.h"
#include "resume/check.h"
#include "resume/search.h"

namespace capstan::resume {
namespace {

constexpr Door the_door{find_resume, check_resume, check_accepted, changes_since};

}  // namespace
}  // namespace capstan::resume

extern "C" [[gnu::visibility("default")]] const void* capstan_resume() { return &capstan::resume::the_door; }
