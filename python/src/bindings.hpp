// What module.cpp collects.
#pragma once

#include <nanobind/nanobind.h>

namespace holdfast::python {

void bind_sessions(nanobind::module_& into);
void bind_containers(nanobind::module_& into);
void bind_errors(nanobind::module_& into);
void bind_stores(nanobind::module_& into);
void bind_graphs(nanobind::module_& into);

/// In a child of fork(): the stores that are open are the parent's.
void forget_stores_of_parent() noexcept;

}  // namespace holdfast::python
