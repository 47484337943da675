// What plugins that use tensors include, compiled once for all of a project's (CapstanPlugin.cmake): ATen, and the
// SDK but for data sources and monitors, which need no LibTorch.
#pragma once
#include <ATen/ATen.h>
#include <capstan/model.h>
#include <capstan/objective.h>
#include <capstan/optimizer.h>
#include <capstan/strategy.h>
