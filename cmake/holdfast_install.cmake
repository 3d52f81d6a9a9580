# The installed package: the library, the public headers, find_package(holdfast) and pkg-config.
include(CMakePackageConfigHelpers)
set(package_directory ${CMAKE_INSTALL_LIBDIR}/cmake/holdfast)

install(TARGETS holdfast_static holdfast_shared EXPORT holdfastTargets)
install(
    DIRECTORY ${HOLDFAST_SOURCE_ROOT}/api/include/ ${HOLDFAST_SOURCE_ROOT}/index/include/
    DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}
    FILES_MATCHING
    PATTERN "*.hpp"
    PATTERN "*.h"
)
install(EXPORT holdfastTargets NAMESPACE holdfast:: DESTINATION ${package_directory})
configure_package_config_file(
    ${PROJECT_SOURCE_DIR}/cmake/holdfastConfig.cmake.in ${CMAKE_BINARY_DIR}/package/holdfastConfig.cmake
    INSTALL_DESTINATION ${package_directory}
)
write_basic_package_version_file(
    ${CMAKE_BINARY_DIR}/package/holdfastConfigVersion.cmake COMPATIBILITY SameMinorVersion
)
install(FILES ${CMAKE_BINARY_DIR}/package/holdfastConfig.cmake ${CMAKE_BINARY_DIR}/package/holdfastConfigVersion.cmake
        DESTINATION ${package_directory}
)
# The prefix is found from where holdfast.pc lies, so that the installed tree can be moved. Where the loader does not
# look (any prefix but the system's), programs are told where the shared library is: known when it is installed.
file(RELATIVE_PATH pc_to_prefix /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
set(pc_run_path "@pc_run_path@")
configure_file(${PROJECT_SOURCE_DIR}/cmake/holdfast.pc.in ${CMAKE_BINARY_DIR}/package/holdfast.pc.in @ONLY)
install(
    CODE "
    set(pc_run_path \"\")
    if(NOT CMAKE_INSTALL_PREFIX MATCHES \"^/usr(/local)?/?$\")
        set(pc_run_path \"-Wl,-rpath,\\\${libdir} \")
    endif()
    configure_file(${CMAKE_BINARY_DIR}/package/holdfast.pc.in ${CMAKE_BINARY_DIR}/package/holdfast.pc @ONLY)"
)
install(FILES ${CMAKE_BINARY_DIR}/package/holdfast.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
