-- |
-- Module      : PeerTest
-- Description : A job of a Haskell and a C program
--
-- Rank 0 is this program, rank 1 one in C that is compiled for the occasion: MPI's own messages and
-- non-blocking collectives go between them.
module PeerTest
  ( tests,
    peer,
  )
where

import Control.Monad (unless)
import Data.Int (Int32, Int64)
import Data.List (isInfixOf)
import Data.Vector.Storable (Vector)
import Data.Vector.Storable qualified as Vector
import Data.Vector.Storable.Mutable qualified as Mutable
import Heddle.MPI
import Heddle.MPI.Collective
import Heddle.MPI.Fast
import Heddle.Prim.Exception
import Jobs
import System.Directory
import System.Environment (getExecutablePath)
import System.Exit (ExitCode (..))
import System.Posix.Process (getProcessID)
import System.Process (callProcess)
import Test.Tasty
import Test.Tasty.HUnit

tests :: TestTree
tests =
  testGroup
    "a job of a Haskell and a C program"
    [testCase mpi' (withPeer mpi' run) | mpi' <- ["openmpi", "mpich"]]
  where
    run mpi' script = do
      result <- runProgram script (Job mpi' 2 [] [] 60)
      let told = show (resultExit result) ++ "\n" ++ resultOutput result ++ resultErrors result
      assertBool told (resultExit result == Just ExitSuccess && "all agree" `isInfixOf` resultOutput result)

-- Compile the C program, and write what starts one or the other.
withPeer :: String -> (String -> FilePath -> IO a) -> IO a
withPeer mpi' use = do
  temporary <- getTemporaryDirectory
  pid <- getProcessID
  self <- getExecutablePath
  let directory = temporary ++ "/heddle-mpi-peer-" ++ show pid ++ "-" ++ mpi'
      source = directory ++ "/peer.c"
      program = directory ++ "/peer"
      script = directory ++ "/either"
  createDirectoryIfMissing True directory
  flip finally (removeDirectoryRecursive directory) $ do
    writeFile source peerSource
    callProcess ("mpicc." ++ mpi') ["-O1", "-o", program, source]
    writeProgram script . unlines $
      [ "#!/bin/sh",
        "if [ \"${OMPI_COMM_WORLD_RANK:-$PMI_RANK}\" = 0 ]; then exec '" ++ self ++ "' --peer; else exec '" ++ program ++ "'; fi"
      ]
    use mpi' script

-- | Rank 0's part.
peer :: IO ()
peer = mpi $ do
  let small = Vector.generate 100 fromIntegral :: Vector Double
      large = Vector.generate 1000000 fromIntegral :: Vector Double
      doubled = Vector.map (* 2)
  send commWorld 1 1 small
  (back, status) <- recvNew commWorld 1 anyTag 100
  check "small" (back == doubled small && statusTag status == 2)
  into <- Mutable.replicate 10 0
  bcast commWorld 1 into
  given <- Vector.freeze into
  check "bcast" (given == Vector.generate 10 (\i -> 3 * fromIntegral i :: Int32))
  gathered <- gatherValue commWorld 0 (11 :: Int64)
  check "gather" (gathered == Just (Vector.fromList [11, 77]))
  sent <- isend commWorld 1 3 large
  (returned, _) <- recvNew commWorld 1 4 1000000
  wait sent
  check "large" (returned == doubled large)
  barrier commWorld
  putStrLn "all agree"
  where
    check what ok = unless ok (throwIO (userError ("not as C has it: " ++ what)))

-- Rank 1's.
peerSource :: String
peerSource =
  unlines
    [ "#include <mpi.h>",
      "#include <stdint.h>",
      "#include <stdlib.h>",
      "static void twice(int n, int from, int to)",
      "{",
      "  double *x = malloc(n * sizeof *x);",
      "  MPI_Recv(x, n, MPI_DOUBLE, 0, from, MPI_COMM_WORLD, MPI_STATUS_IGNORE);",
      "  for (int i = 0; i < n; i++) x[i] *= 2;",
      "  MPI_Send(x, n, MPI_DOUBLE, 0, to, MPI_COMM_WORLD);",
      "  free(x);",
      "}",
      "int main(int argc, char **argv)",
      "{",
      "  MPI_Request request;",
      "  int32_t numbers[10];",
      "  int64_t mine = 77;",
      "  MPI_Init(&argc, &argv);",
      "  twice(100, 1, 2);",
      "  for (int i = 0; i < 10; i++) numbers[i] = 3 * i;",
      "  MPI_Ibcast(numbers, 10, MPI_INT32_T, 1, MPI_COMM_WORLD, &request);",
      "  MPI_Wait(&request, MPI_STATUS_IGNORE);",
      "  MPI_Igather(&mine, 1, MPI_INT64_T, NULL, 1, MPI_INT64_T, 0, MPI_COMM_WORLD, &request);",
      "  MPI_Wait(&request, MPI_STATUS_IGNORE);",
      "  twice(1000000, 3, 4);",
      "  MPI_Ibarrier(MPI_COMM_WORLD, &request);",
      "  MPI_Wait(&request, MPI_STATUS_IGNORE);",
      "  MPI_Finalize();",
      "  return 0;",
      "}"
    ]
