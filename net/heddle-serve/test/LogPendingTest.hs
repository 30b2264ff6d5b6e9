{-# LANGUAGE OverloadedStrings #-}

-- | The file in which the access log's lines wait, as a killed process leaves it.
module LogPendingTest (tests) where

import Control.Exception (bracket)
import Control.Monad (forM_, unless)
import Data.Bits (xor)
import Data.ByteString (ByteString)
import Data.ByteString qualified as B
import Data.ByteString.Char8 qualified as C
import Data.ByteString.Unsafe (unsafeUseAsCStringLen)
import Data.IORef
import Data.List (isInfixOf)
import Foreign.Ptr (castPtr)
import Heddle.IO (defaultConfig, withRuntime)
import Heddle.Prim.Errno (Errno, describeErrno)
import Heddle.Prim.File (appendCreate, openFile)
import Heddle.Serve.Internal
import Heddle.Serve.Internal.LogRing
import Heddle.Testkit.Descriptors (openDescriptor)
import SiteFixture (withDirectory)
import System.Directory (doesFileExist, listDirectory, renameFile)
import System.FilePath ((</>))
import System.Posix.Files (createLink, createSymbolicLink, deviceID, fileID, fileSize, getFileStatus)
import System.Posix.IO (OpenMode (..), closeFd)
import System.Posix.Types (Fd)
import Test.Tasty (TestTree, testGroup)
import Test.Tasty.HUnit (assertBool, assertFailure, testCase, (@?=))
import Test.Tasty.QuickCheck (Gen, choose, elements, forAll, forAllBlind, ioProperty, oneof, testProperty, vectorOf)

tests :: TestTree
tests =
  testGroup
    "LogPending"
    [ testCase "lines that no batch has are written, each ring's in order, around the end as well" $
        withLog $ \path -> do
          left path 2 64 $ \file -> do
            let (one, two) = (head (pendingRings file), last (pendingRings file))
            forM_ [1 .. 10 :: Int] $ \i -> put one (C.pack ("old " ++ show i ++ "\n")) >> dropAll one
            put one "first line of one\n"
            put one "second line of one\n"
            put two "line of two\n"
          (kept, said) <- opened path 4
          kept @?= "before\nfirst line of one\nsecond line of one\nline of two\n"
          said @?= ["3 lines of a process that was killed were written"],
      testGroup
        "killed within a batch"
        [ testCase (what ++ (if other then ", another process has appended" else "") ++ (if rotated then ", rotated" else "")) $
            withLog $ \path -> do
              place <- placeOf path
              left path 1 256 $ \file -> do
                let ring = head (pendingRings file)
                put ring batch
                put ring "c\n"
                note file 0 0 (B.length batch) place
              B.appendFile path (B.take done batch)
              if other then B.appendFile path "theirs\n" else pure ()
              if rotated then renameFile path (path ++ ".1") >> B.writeFile path "" else pure ()
              (kept, _) <- opened path 4
              old <- if rotated then B.readFile (path ++ ".1") else pure ""
              let rest = if whole then "c\n" else batch <> "c\n"
              if other && not whole && done > 0
                then -- Not at the end of a page, so no kill left it: it is not taken for a part of the batch.
                  assertBool (show (old, kept)) (rest `B.isSuffixOf` kept)
                else old <> kept @?= "before\n" <> (if whole then batch <> theirs other <> "c\n" else (if done == 0 then theirs other else "") <> batch <> "c\n")
          | (what, done, whole) <- [("nothing written", 0, False), ("a part", 9, False), ("whole lines of it", 8, False), ("all", B.length batch, True)],
            other <- [False, True],
            rotated <- [False, True]
        ],
      testCase "a part up to the end of a page, then another process's lines: whole lines are not doubled" $
        withDirectory $ \d -> do
          let path = d </> "log"
          B.writeFile path (C.replicate 4080 'x' <> "\n")
          place <- placeOf path
          left path 1 256 $ \file -> do
            put (head (pendingRings file)) "aaaaaaa\nbbbbbbbbbbbbbbbb\n"
            note file 0 0 25 place
          B.appendFile path "aaaaaaa\nbbbbbbbtheirs\n"
          (kept, _) <- opened path 4
          B.drop 4081 kept @?= "aaaaaaa\nbbbbbbbtheirs\nbbbbbbbbbbbbbbbb\n",
      testCase "a batch whose tail has moved is not written again" $
        withLog $ \path -> do
          place <- placeOf path
          left path 1 256 $ \file -> do
            let ring = head (pendingRings file)
            put ring batch
            note file 0 0 (B.length batch) place
            consume ring (B.length batch)
            put ring "c\n"
          (kept, _) <- opened path 4
          kept @?= "before\nc\n",
      testCase "the log was cut to nothing meanwhile: what is there is found" $
        withLog $ \path -> do
          noted path 1 256
          B.writeFile path batch
          (kept, _) <- opened path 4
          kept @?= batch,
      testCase "the log was removed: rather a line twice than none" $
        withLog $ \path -> do
          noted path 1 256
          renameFile path (path ++ ".elsewhere")
          (kept, _) <- opened path 4
          kept @?= batch,
      testCase "a log that refuses keeps the lines for the next start, and this process takes the next file" $
        withLog $ \path -> do
          left path 1 256 $ \file -> put (head (pendingRings file)) batch
          said <- newIORef []
          bracket (openDescriptor "/dev/full" WriteOnly) closeFd $ \fd ->
            openPending (\t -> modifyIORef said (t :)) path fd 4 1 64 >>= \case
              Right file -> do
                pendingPath file @?= path ++ ".pending.1"
                closePending file
              Left why -> assertFailure why
          texts <- readIORef said
          assertBool (show texts) (any ("keeps lines" `isInfixOf`) texts && any ("ENOSPC" `isInfixOf`) texts)
          (kept, _) <- opened path 4
          kept @?= "before\n" <> batch,
      testCase "the files of processes that live are left alone; others' are removed" $
        withLog $ \path -> do
          r <- acquirePending (path ++ ".pending.0") True >>= either refused (\fd -> formatPending (path ++ ".pending.0") fd 1 64)
          mine <- either refused pure r
          put (head (pendingRings mine)) "mine\n"
          forM_ [1 .. 3 :: Int] $ \k -> leftAs (path ++ ".pending." ++ show k) 1 64 (\file -> put (head (pendingRings file)) (C.pack (show k ++ "\n")))
          (kept, said') <- opened path 4
          (kept, said') @?= ("before\n1\n2\n3\n", ["1 line of a process that was killed was written" | _ <- [1 .. 3 :: Int]])
          leavePending mine
          (again, _) <- opened path 4
          again @?= "before\n1\n2\n3\nmine\n"
          listDirectory' path >>= (@?= ["log"]),
      testCase "other sizes and numbers of rings are read as they are" $
        withLog $ \path -> do
          left path 3 128 $ \file -> forM_ (zip [1 :: Int ..] (pendingRings file)) $ \(i, ring) -> put ring (C.pack (show i ++ "\n"))
          (kept, _) <- opened path 1
          kept @?= "before\n1\n2\n3\n",
      testCase "an incomplete line at the log's end is ended first" $
        withLog $ \path -> do
          B.appendFile path "torn"
          left path 1 64 $ \file -> put (head (pendingRings file)) "a\n"
          (kept, _) <- opened path 1
          kept @?= "before\ntorn\na\n",
      testCase "links are not followed and not cut" $
        forM_ [createSymbolicLink, createLink] $ \link -> withLog $ \path -> do
          B.writeFile (path ++ ".victim") "precious"
          link (path ++ ".victim") (path ++ ".pending.0")
          (kept, said) <- opened path 1
          B.readFile (path ++ ".victim") >>= (@?= "precious")
          kept @?= "before\n"
          assertBool (show said) (any ("is left alone" `isInfixOf`) said),
      testCase "lines from before the machine was started are dropped, with a message" $
        withLog $ \path -> do
          left path 1 64 $ \file -> put (head (pendingRings file)) "a\n"
          change (path ++ ".pending.0") (\bytes -> B.take 32 bytes <> B.map (xor 1) (B.take 36 (B.drop 32 bytes)) <> B.drop 68 bytes)
          (kept, said) <- opened path 1
          kept @?= "before\n"
          assertBool (show said) (any ("2 bytes of lines are dropped" `isInfixOf`) said),
      testCase "where no file can be made, the log works, and says so once" $
        withDirectory $ \d -> do
          let path = d </> "log"
          B.writeFile path ""
          -- All numbers are taken by what cannot be opened: no permission is needed to fail.
          said <- newIORef []
          bracket (openDescriptor path WriteOnly) closeFd $ \fd ->
            openPending (\t -> modifyIORef said (t :)) (d </> "missing" </> "log") fd 1 1 64 >>= \case
              Left why -> assertBool why ("ENOENT" `isInfixOf` why)
              Right _ -> assertFailure "a file in a directory that is not there",
      testCase "a log without a regular file has no such file" $
        withDirectory $ \d -> do
          createSymbolicLink "/dev/null" (d </> "log")
          withRuntime defaultConfig $ \runtime ->
            withAccessLog runtime id defaultLogOptions (LogFile (d </> "log")) (const (pure ())) $ \_ -> listDirectory d >>= (@?= ["log"]),
      testCase "a log that is closed leaves no file" $
        withDirectory $ \d -> withRuntime defaultConfig $ \runtime -> do
          withAccessLog runtime id defaultLogOptions (LogFile (d </> "log")) (const (pure ())) $ \_ ->
            doesFileExist (d </> "log.pending.0") >>= assertBool "there is one"
          listDirectory d >>= (@?= ["log"]),
      testProperty "damaged files: a message, nothing in the log, and a new file" $
        forAllBlind damage $ \(name, spoil) -> ioProperty . withLog $ \path -> do
          noted path 2 64
          change (path ++ ".pending.0") spoil
          (kept, said) <- opened path 2
          unless (kept == "before\n" && any ("is damaged" `isInfixOf`) said) $ assertFailure (name ++ ": " ++ show (kept, said)),
      testProperty "any bytes: never a crash, and nothing in the log" $
        forAll ((,) <$> choose (1, 9000) <*> elements [0, 1, 255] >>= \(n, b) -> oneof [pure (B.replicate n b), B.pack <$> vectorOf n (choose (0, 255))]) $ \bytes ->
          ioProperty . withLog $ \path -> do
            B.writeFile (path ++ ".pending.0") bytes
            (kept, said) <- opened path 2
            unless (kept == "before\n" && any ("is damaged" `isInfixOf`) said) $ assertFailure (show (kept, said))
    ]
  where
    theirs other = if other then "theirs\n" else ""
    listDirectory' path = listDirectory (reverse (dropWhile (/= '/') (reverse path)))

batch :: ByteString
batch = "aaaaaaa\nbbbbbbb\n"

-- One place of a good file changed so that it cannot be right.
damage :: Gen (String, ByteString -> ByteString)
damage =
  oneof
    [ named "magic" <$> (setWord 0 <$> choose (0, 1000000)),
      named "version" <$> (setWord 1 <$> elements [0, 2, -1, maxBound]),
      named "count" <$> (setWord 2 <$> elements [0, 1, 3, -2, minBound, maxBound, 65537]),
      named "size" <$> (setWord 3 <$> elements [0, 32, 63, 65, 128, -64, minBound, maxBound]),
      named "head" <$> (setWord 48 <$> elements [-1, minBound, maxBound, 65, 81, 15, 17]),
      named "tail" <$> (setWord 56 <$> elements [-1, minBound, 17, 1, 9, maxBound]),
      named "note" <$> (setWord 16 <$> elements [-1, 2 + 1, 7, minBound, maxBound]),
      named "note's ring" <$> (setWord 24 <$> elements [-1, 2, minBound, maxBound]),
      named "note's size" <$> (setWord 27 <$> elements [-1, minBound]),
      named "note's begin" <$> (setWord 28 <$> elements [-1, 1, 100, minBound, maxBound]),
      named "note's length" <$> (setWord 29 <$> elements [0, -1, 17, minBound, maxBound]),
      (\n -> ("cut to " ++ show n, B.take n)) <$> choose (1, 4096 + 127),
      pure ("longer", (<> "x")),
      pure ("zero bytes", \bytes -> B.take 4096 bytes <> B.replicate (B.length bytes - 4096) 0)
    ]
  where
    named what f = (what, f)
    setWord i n bytes = B.take (8 * i) bytes <> littleEndian (n :: Int) <> B.drop (8 * i + 8) bytes
    littleEndian n = B.pack [fromIntegral (n `div` (256 ^ k)) | k <- [0 .. 7 :: Int]]

change :: FilePath -> (ByteString -> ByteString) -> IO ()
change path f = B.readFile path >>= B.writeFile path . f

withLog :: (FilePath -> IO a) -> IO a
withLog body = withDirectory $ \d -> do
  B.writeFile (d </> "log") "before\n"
  body (d </> "log")

put :: LogRing -> ByteString -> IO ()
put ring line = unsafeUseAsCStringLen line $ \(p, n) -> do
  held <- putLine ring (castPtr p) n
  assertBool "it fits" (held >= 0)

dropAll :: LogRing -> IO ()
dropAll ring = pendingBytes ring >>= consume ring

placeOf :: FilePath -> IO SinkPlace
placeOf path = (\s -> SinkPlace (fromIntegral (deviceID s)) (fromIntegral (fileID s)) (fromIntegral (fileSize s))) <$> getFileStatus path

-- What a process has in its file when it is killed.
left :: FilePath -> Int -> Int -> (PendingFile -> IO ()) -> IO ()
left path = leftAs (path ++ ".pending.0")

-- The same with the batch in the first ring, and the note that it is being written.
noted :: FilePath -> Int -> Int -> IO ()
noted path count size = do
  place <- placeOf path
  left path count size $ \file -> do
    put (head (pendingRings file)) batch
    note file 0 0 (B.length batch) place

leftAs :: FilePath -> Int -> Int -> (PendingFile -> IO ()) -> IO ()
leftAs name count size fill = do
  fd <- acquirePending name True >>= either refused pure
  file <- formatPending name fd count size >>= either refused pure
  fill file
  leavePending file

refused :: Errno -> IO a
refused = assertFailure . describeErrno

-- The next start: the log's content, and the messages. It ends cleanly.
opened :: FilePath -> Int -> IO (ByteString, [String])
opened path count = do
  said <- newIORef []
  bracket (appending path) closeFd $ \fd ->
    openPending (\t -> modifyIORef said (++ [t])) path fd 4 count 64 >>= either assertFailure closePending
  (,) <$> B.readFile path <*> readIORef said

appending :: FilePath -> IO Fd
appending path = fromIntegral <$> openFile (C.pack path) appendCreate
