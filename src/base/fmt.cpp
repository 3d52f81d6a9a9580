// The functions of fmt, compiled once: FMT_HEADER_ONLY takes up to two thirds of the time of each file, and fmt's
// library would be a dependency of every program. cmake/holdfast_dependencies.cmake gives this copy its own namespace.
#include <fmt/format-inl.h>

FMT_BEGIN_NAMESPACE
namespace detail {

template auto thousands_sep_impl<char>(locale_ref) -> thousands_sep_result<char>;
template auto decimal_point_impl(locale_ref) -> char;
template auto dragonbox::to_decimal(float) noexcept -> dragonbox::decimal_fp<float>;
template auto dragonbox::to_decimal(double) noexcept -> dragonbox::decimal_fp<double>;

}  // namespace detail
FMT_END_NAMESPACE
