#pragma once
#include "support/folder.h"

using Scratch = test::Folder;
