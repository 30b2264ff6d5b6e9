-- |
-- Module      : Main
-- Description : Tests of heddle-mpi, alone and in jobs
--
-- Run with @--cases FILE FROM@ it is a rank of a job that it has started itself; with
-- @--spawned ROLE@, a process that such a job has spawned.
module Main
  ( main,
  )
where

import ClosingTest qualified
import ClosureTest qualified
import CollectiveTest qualified
import CommunicatorTest qualified
import CompactTest qualified
import CompatibilityTest qualified
import DatatypeTest qualified
import DeferredCloseTest qualified
import FailureTest qualified
import FastTest qualified
import FileTest qualified
import GivenUpReceiveTest qualified
import GivenUpTest qualified
import Heddle.MPI (mpi)
import Jobs
import LauncherTest qualified
import ListingTest qualified
import MessageTest qualified
import PeerTest qualified
import ProcessTest qualified
import Ranks
import SimpleTest qualified
import SpmdTest qualified
import System.Environment (getArgs)
import Test.Tasty
import TopologyTest qualified

main :: IO ()
main =
  getArgs >>= \case
    ["--cases", path, from] -> mpi (runCases path (read from) cases)
    "--fails" : role -> FailureTest.failing role
    ["--peer"] -> PeerTest.peer
    "--spawned" : role -> ProcessTest.spawned role
    _ ->
      defaultMain . testGroup "heddle-mpi" $
        [MessageTest.tests, LauncherTest.tests, FailureTest.tests, PeerTest.tests] ++ jobTests cases ++ ProcessTest.tests ++ ListingTest.tests

cases :: [Case]
cases =
  concat
    [ FastTest.cases,
      SimpleTest.cases,
      GivenUpTest.cases,
      GivenUpReceiveTest.cases,
      SpmdTest.cases,
      CollectiveTest.cases,
      CommunicatorTest.cases,
      ClosingTest.cases,
      CompatibilityTest.cases,
      TopologyTest.cases,
      ClosureTest.cases,
      CompactTest.cases,
      ProcessTest.cases,
      DatatypeTest.cases,
      FileTest.cases,
      DeferredCloseTest.cases,
      LauncherTest.cases
    ]
