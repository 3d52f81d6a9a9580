# The installed package: the library, the public headers, find_package(holdfast) and pkg-config. The components are the
# Debian packages (packaging/debian).
include(CMakePackageConfigHelpers)
set(package_directory ${CMAKE_INSTALL_LIBDIR}/cmake/holdfast)

install(
    TARGETS holdfast_static holdfast_shared
    EXPORT holdfastTargets
    ARCHIVE COMPONENT development
    LIBRARY COMPONENT library NAMELINK_COMPONENT development
)
set(others "/store[^/]*$") # src/store/CMakeLists.txt installs them
if(NOT HOLDFAST_BUILD_INDEX)
    string(APPEND others "|/holdfast/(index$|index\\.h$|ordered_index|hash_index|check_indexes)")
endif()
install(
    DIRECTORY ${HOLDFAST_INCLUDE_ROOT}/holdfast
    DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}
    COMPONENT development
    FILES_MATCHING
    PATTERN "*.hpp"
    PATTERN "*.h"
    REGEX "${others}" EXCLUDE
)
# gdb loads the printers with the shared library: those of a directory of the system from below auto-load, others from
# beside the library, once `add-auto-load-safe-path` names that place. Programs with the static one name them in
# ~/.gdbinit.
set(printers ${PROJECT_SOURCE_DIR}/tools/gdb/holdfast_printers.py)
install(FILES ${printers} DESTINATION ${CMAKE_INSTALL_DATADIR}/holdfast COMPONENT library)
if(CMAKE_INSTALL_FULL_LIBDIR MATCHES "^/usr/lib")
    set(place ${CMAKE_INSTALL_DATADIR}/gdb/auto-load/${CMAKE_INSTALL_FULL_LIBDIR})
else()
    set(place ${CMAKE_INSTALL_LIBDIR})
endif()
install(FILES ${printers} DESTINATION ${place} RENAME libholdfast.so.${PROJECT_VERSION}-gdb.py COMPONENT library)
install(EXPORT holdfastTargets NAMESPACE holdfast:: DESTINATION ${package_directory} COMPONENT development)
configure_package_config_file(
    ${PROJECT_SOURCE_DIR}/cmake/holdfastConfig.cmake.in ${CMAKE_BINARY_DIR}/package/holdfastConfig.cmake
    INSTALL_DESTINATION ${package_directory}
)
write_basic_package_version_file(
    ${CMAKE_BINARY_DIR}/package/holdfastConfigVersion.cmake COMPATIBILITY SameMinorVersion
)
install(FILES ${CMAKE_BINARY_DIR}/package/holdfastConfig.cmake ${CMAKE_BINARY_DIR}/package/holdfastConfigVersion.cmake
        DESTINATION ${package_directory} COMPONENT development
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
    COMPONENT development
)
install(FILES ${CMAKE_BINARY_DIR}/package/holdfast.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig
        COMPONENT development
)
