module Main (main) where

import ClientsTest qualified
import CommandTest qualified
import CompletionTest qualified
import FindTest qualified
import JsonTest qualified
import LogTest qualified
import MemoryTest qualified
import PipeTest qualified
import PressureTest qualified
import Test.Tasty
import Test.Tasty.Runners (NumThreads (..))
import TlsTest qualified

main :: IO ()
main =
  defaultMain . localOption (NumThreads 1) $
    testGroup "heddle" [CommandTest.tests, CompletionTest.tests, LogTest.tests, PipeTest.tests, JsonTest.tests, FindTest.tests, PressureTest.tests, MemoryTest.tests, ClientsTest.tests, TlsTest.tests]
