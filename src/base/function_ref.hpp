#pragma once

#include <concepts>
#include <memory>
#include <type_traits>
#include <utility>

namespace holdfast::base {

template <class Signature>
class function_ref;

/// A parameter for any callable. It neither owns nor allocates.
template <class Result, class... Arguments>
class function_ref<Result(Arguments...)> {
public:
    // NOLINTBEGIN(google-explicit-constructor,bugprone-forwarding-reference-overload): a callable becomes a parameter
    template <class Callable>
        requires(!std::same_as<std::remove_cvref_t<Callable>, function_ref> &&
                 std::is_invocable_r_v<Result, Callable&, Arguments...>)
    function_ref(Callable&& callable) noexcept
        : object_(const_cast<void*>(static_cast<const volatile void*>(std::addressof(callable)))),
          call_([](void* object, Arguments... arguments) -> Result {
              return (*static_cast<std::remove_reference_t<Callable>*>(object))(std::forward<Arguments>(arguments)...);
          }) {}
    // NOLINTEND(google-explicit-constructor,bugprone-forwarding-reference-overload)

    Result operator()(Arguments... arguments) const { return call_(object_, std::forward<Arguments>(arguments)...); }

private:
    void* object_;
    Result (*call_)(void*, Arguments...);
};

}  // namespace holdfast::base
