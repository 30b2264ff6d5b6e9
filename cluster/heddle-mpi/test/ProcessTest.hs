{-# LANGUAGE DataKinds #-}

-- | Spawning and connecting.
module ProcessTest
  ( cases,
    tests,
    spawned,
  )
where

import Control.Concurrent.MVar
import Control.Monad (forM_, unless, void, when)
import Data.ByteString qualified as Bytes
import Data.ByteString.Char8 qualified as Text
import Data.List (isInfixOf)
import Data.Vector.Storable qualified as Vector
import Heddle.MPI
import Heddle.MPI.Communicator
import Heddle.MPI.Fast
import Heddle.MPI.Process
import Heddle.Prim.Exception hiding (assert)
import Heddle.Prim.Thread (fork)
import Jobs
import Ranks
import System.Environment (getExecutablePath)
import System.Exit (ExitCode (..))
import System.Process (readProcess)
import Test.Tasty
import Test.Tasty.HUnit (assertBool, testCase)

cases :: [Case]
cases =
  [ connecting [1 .. 4] "one spawned process" (spawning 1),
    connecting [1, 2] "two spawned processes" (spawning 2),
    connecting [2] "a root other than 0, and spawning twice" $ do
      self <- getExecutablePath
      rank <- commRank commWorld
      forM_ [1, 2] $ \n ->
        -- The arguments of the other ranks do not count.
        withConnection (if rank == 1 then spawn commWorld 1 self ["--spawned", "size"] n else spawn commWorld 1 "no such program" [] 1) $ \inter -> do
          remoteSize inter >>= (=== n)
          when (rank == 1) $ forM_ [0 .. n - 1] $ \r -> recvValue inter (toRank r) 1 >>= (=== n) . (fst :: (Int, Status) -> Int),
    connecting [1] "arguments come as they are" (saying ["a b", "\"quoted\"", "'", "\\", "\228\955", "-n", "$HOME", "*", "x=y; z"]),
    connecting [2] "others go on while one spawns" $ do
      rank <- commRank commWorld
      self <- getExecutablePath
      withDup commWorld $ \aside -> do
        answered <- newEmptyMVar
        -- Rank 1 waits in the spawn until rank 0 has had its answer.
        if rank == 0
          then do
            sendValue aside 1 1 (20 :: Int)
            recvValue aside 1 2 >>= (=== (21 :: Int)) . fst
          else void . fork "test/answer" $ do
            (n, _) <- recvValue aside 0 1
            sendValue aside 0 2 (n + 1 :: Int)
            putMVar answered ()
        withConnection (spawn commWorld 0 self ["--spawned", "nothing"] 1) (\inter -> remoteSize inter >>= (=== 1))
        unless (rank == 0) (takeMVar answered),
    connecting [1, 2] "no such port" $
      exceptOn [OpenMpi 5, OpenMpi 6] "Open MPI 5 and 6 do not return from connecting to a port that nobody has opened" $
        throws [InvalidPort] (connect (Port "no such port") commSelf 0),
    anywhere "nobody has spawned this one" $ parent >>= (=== Nothing),
    anywhere "where it cannot be done, that is said" $ do
      able <- capable
      unless able $ do
        throws [Unsupported] (spawn commWorld 0 "/bin/true" [] 1)
        throws [Unsupported] openPort
        throws [Unsupported] (closePort (Port "p"))
        throws [Unsupported] (accept (Port "p") commWorld 0)
        throws [Unsupported] (connect (Port "p") commWorld 0)
        mpi' <- library
        said <- try openPort
        case said of
          Left e -> assert (displayException e) ((if mpi' == Alone then "heddle-mpirun" else "this build of MPICH") `isInfixOf` displayException (e :: MPIError))
          Right _ -> assert "no error" False,
    connecting [1 .. 4] "ports" $ do
      a <- openPort
      assert "a port has a name" (not (null (portName a)))
      withPort $ \b -> assert "two ports are two" (a /= b)
      closePort a,
    connecting [2 .. 4] "connect and accept within a job" $ do
      rank <- commRank commWorld
      case rank of
        0 -> withPort $ \port -> do
          send commWorld 1 1 (Text.pack (portName port))
          withConnection (accept port commSelf 0) $ \inter -> talk inter 100 200
        1 -> do
          port <- portFrom 0
          withConnection (connect port commSelf 0) $ \inter -> talk inter 200 100
        _ -> pure (),
    connecting [4] "connect and accept between two halves" $ do
      rank <- commRank commWorld
      let server = rank < 2
      withSplit commWorld (Just (fromEnum server)) 0 $ \case
        Nothing -> assert "there is a half" False
        Just half -> do
          let use inter = do
                remoteSize inter >>= (=== 2)
                talk inter (fromIntegral rank) (fromIntegral ((rank + 2) `mod` 4))
                withMerged inter (not server) $ \both -> do
                  commSize both >>= (=== 4)
                  commRank both >>= (=== rank)
          if server
            then
              if rank == 0
                then withPort $ \port -> do
                  send commWorld 2 1 (Text.pack (portName port))
                  withConnection (accept port half 0) use
                else withConnection (accept (Port "") half 0) use
            else do
              port <- if rank == 2 then portFrom 0 else pure (Port "")
              withConnection (connect port half 0) use,
    anywhere "disconnecting a duplicate" $ do
      dup <- newDup commWorld
      disconnect dup
      throws [AlreadyClosed] (disconnect dup)
      throws [AlreadyClosed] (closeComm dup)
      throws [InvalidCommunicator] (disconnect commWorld),
    -- The last: before accept it made that fail with Open MPI 5 (MPI_ERR_INTERN).
    anywhere "wrong spawns" $ do
      size <- commSize commWorld
      throws [InvalidRoot] (spawn commWorld (toRank size) "/bin/true" [] 1)
      throws [InvalidRoot] (spawn commWorld (-1) "/bin/true" [] 1)
      rank <- commRank commWorld
      -- All ranks throw, whatever the others pass.
      let refused class' program arguments n =
            if rank == 0
              then throws [class'] (spawn commWorld 0 program arguments n)
              else throws [RemoteError] (spawn commWorld 0 "/bin/true" [] 1)
      forM_ [0, -2, 4294967297] (refused InvalidArgument "/bin/true" [])
      forM_ ["", "/bin/tr\0ue", "/bin/true\n"] (\program -> refused InvalidArgument program [] 1)
      forM_ ["", "a\nb", "\0"] (\argument -> refused InvalidArgument "/bin/true" ["a", argument] 1)
      forM_ ["/no/such/program", "no such program", "/tmp"] (\program -> refused SpawnFailed program [] 1)
      throws [InvalidRoot] (accept (Port "") commWorld (toRank size))
      throws [InvalidRoot] (connect (Port "") commWorld (-1))
      throws [InvalidArgument] (connect (Port "a\0b") commWorld 0)
  ]

-- | Jobs that fail.
tests :: [TestTree]
tests =
  [ testGroup
      "spawned processes that fail"
      [ testGroup
          mpi'
          [ testCase "an exception in a spawned process ends the job" $ do
              result <- runJob (Job mpi' 1 ["--spawned", "parent of", "failure"] [] 60)
              let told = show (resultExit result) ++ resultOutput result ++ resultErrors result
              -- Open MPI 5 ends what was spawned, and only that.
              separate <- isInfixOf "PRTE_MCA" <$> readProcess "heddle-mpirun" ["--mpi", mpi', "--show", "-n", "1", "/bin/true"] ""
              unless separate (assertBool told (resultExit result `notElem` [Nothing, Just ExitSuccess]))
              assertBool told (any (`isInfixOf` resultErrors result) ["on purpose", "this build of MPICH"]),
            testCase "an exception in a spawner ends the spawned" $ do
              result <- runJob (Job mpi' 1 ["--spawned", "failing parent of", "patience"] [] 60)
              let told = show (resultExit result) ++ resultOutput result ++ resultErrors result
              assertBool told (resultExit result `notElem` [Nothing, Just ExitSuccess])
              assertBool told (any (`isInfixOf` resultErrors result) ["on purpose", "this build of MPICH"])
          ]
        | mpi' <- ["openmpi", "mpich"]
      ]
  ]

-- | The part of a spawned process.
spawned :: [String] -> IO ()
spawned role = mpi $ case role of
  ["double"] -> withParent $ \inter -> do
    rank <- commRank commWorld
    size <- commSize commWorld
    (x, status) <- recvValue inter anySource 1
    statusSource status === 0
    send inter 0 2 (Vector.fromList [2 * x :: Int, fromIntegral rank, size])
    parents <- remoteSize inter
    withMerged inter True $ \both -> do
      commSize both >>= (=== parents + size)
      commRank both >>= (=== rank + toRank parents)
      (greeting, _) <- recvNew both 0 3 100
      Vector.toList greeting === "hello"
  ["size"] -> withParent $ \inter -> do
    size <- commSize commWorld
    sendValue inter 1 1 size
  "say" : texts -> withParent $ \inter -> forM_ texts $ \text -> send inter 0 1 (Vector.fromList text)
  ["nothing"] -> withParent (const (pure ()))
  ["failure"] -> withParent (const (ioError (userError "on purpose")))
  ["patience"] -> withParent $ \inter -> do
    sendValue inter 0 1 (1 :: Int)
    void (recvValue inter 0 1 :: IO (Int, Status))
  ["parent of", child] -> do
    self <- getExecutablePath
    withConnection (spawn commWorld 0 self ["--spawned", child] 1) $ \inter -> void (recvValue inter 0 1 :: IO (Int, Status))
  ["failing parent of", child] -> do
    self <- getExecutablePath
    withConnection (spawn commWorld 0 self ["--spawned", child] 1) $ \inter -> do
      (_ :: Int, _) <- recvValue inter 0 1
      ioError (userError "on purpose")
  _ -> ioError (userError ("no such role: " ++ show role))

withParent :: (Comm 'Inter -> IO a) -> IO a
withParent use = do
  first <- parent
  second <- parent
  first === second
  case first of
    Nothing -> ioError (userError "nobody has spawned this process")
    Just inter -> do
      a <- use inter
      disconnect inter
      parent >>= (=== Nothing)
      throws [AlreadyClosed] (remoteSize inter)
      pure a

-- Each child doubles a number; then all are in one world.
spawning :: Int -> IO ()
spawning n = do
  self <- getExecutablePath
  rank <- commRank commWorld
  size <- commSize commWorld
  withConnection (spawn commWorld 0 self ["--spawned", "double"] n) $ \inter -> do
    remoteSize inter >>= (=== n)
    commSize inter >>= (=== size)
    when (rank == 0) $
      forM_ [0 .. n - 1] $ \r -> do
        sendValue inter (toRank r) 1 (100 + r)
        (got, _) <- recvNew inter (toRank r) 2 3
        Vector.toList got === [200 + 2 * r, r, n]
    withMerged inter False $ \both -> do
      commSize both >>= (=== size + n)
      commRank both >>= (=== rank)
      when (rank == 0) $ forM_ [0 .. n - 1] $ \r -> send both (toRank (size + r)) 3 (Vector.fromList "hello")

-- A child sends its arguments.
saying :: [String] -> IO ()
saying texts = do
  self <- getExecutablePath
  withConnection (spawn commSelf 0 self (["--spawned", "say"] ++ texts) 1) $ \inter ->
    forM_ texts $ \expected -> do
      (got, _) <- recvNew inter 0 1 1000
      Vector.toList got === expected

-- Both sides send and receive.
talk :: Comm 'Inter -> Int -> Int -> IO ()
talk inter mine expected = do
  rank <- commRank inter
  sent <- isend inter rank 5 (Vector.singleton mine)
  (got, _) <- recvValue inter rank 5
  got === expected
  void (wait sent)

portFrom :: Rank -> IO Port
portFrom from = do
  (name, _) <- recvNew commWorld from 1 4096
  pure (Port (Text.unpack (Bytes.pack (Vector.toList name))))

-- The MPIs that can start and connect processes; the cases below check that the others refuse.
connecting :: [Int] -> String -> IO () -> Case
connecting sizes name body = onRanks sizes name (capable >>= \able -> when able body)

capable :: IO Bool
capable =
  (try (withPort (const (pure ()))) :: IO (Either MPIError ())) >>= \case
    Left e -> do
      assert (displayException e) (errorClass e == Unsupported)
      mpi' <- library
      assert "Open MPI can" (case mpi' of OpenMpi _ -> False; _ -> True)
      pure False
    Right () -> pure True
