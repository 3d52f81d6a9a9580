// What module.cpp collects.
#pragma once

#include <nanobind/nanobind.h>

namespace holdfast::python {

void bind_sessions(nanobind::module_& into);
void bind_containers(nanobind::module_& into);
void bind_errors(nanobind::module_& into);

}  // namespace holdfast::python
