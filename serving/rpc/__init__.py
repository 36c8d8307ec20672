"""The edge of protobuf and gRPC: conversion, validation, status, boundary."""
