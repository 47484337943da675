#include "records/jsonl_data.h"

CAPSTAN_DATA("jsonl", "1.0", "JSON lines: prompts with completions, conversations, or plain text", jsonl::JsonlData,
             jsonl::JsonlOptions)
