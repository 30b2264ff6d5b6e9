{-# LANGUAGE OverloadedStrings #-}

-- | Files beneath a root.
module FileTest (tests) where

import Control.Exception
import Control.Monad
import Data.ByteString qualified as B
import Data.ByteString.Char8 qualified as C
import Foreign.Marshal.Alloc (allocaBytes)
import Foreign.Ptr (castPtr)
import Harness
import Heddle.File
import Heddle.IO
import Heddle.Prim.Clock (monotonicNow)
import Heddle.Prim.Errno
import System.Directory
import System.Posix.Files (createNamedPipe, createSymbolicLink)
import Test.Tasty
import Test.Tasty.HUnit

-- A directory with files, links and a way out.
withSite :: (Root -> IO a) -> IO a
withSite body = do
  base <- getTemporaryDirectory
  now <- monotonicNow
  let dir = base ++ "/heddle-file-test-" ++ show now
      site = dir ++ "/site"
  createDirectoryIfMissing True (site ++ "/sub")
  B.writeFile (dir ++ "/secret") "secret"
  B.writeFile (site ++ "/hello") "hello, world"
  B.writeFile (site ++ "/sub/deep") "deep"
  B.writeFile (site ++ "/large") large
  B.writeFile (site ++ "/empty") ""
  createSymbolicLink "hello" (site ++ "/inside")
  createSymbolicLink "../secret" (site ++ "/outside")
  createSymbolicLink (dir ++ "/secret") (site ++ "/absolute")
  createSymbolicLink "loop" (site ++ "/loop")
  createNamedPipe (site ++ "/fifo") 0o600
  withRoot (C.pack site) body `finally` removePathForcibly dir

large :: B.ByteString
large = B.concat [C.pack (show n ++ "\n") | n <- [1 .. 200000 :: Int]]

whole :: File -> IO B.ByteString
whole file = go 0
  where
    go o = readAt file o 65536 >>= \b -> if B.null b then pure "" else (b <>) <$> go (o + fromIntegral (B.length b))

tests :: TestTree
tests =
  testGroup
    "Heddle.File"
    [ testIn "a root lives until it is closed" . withoutLeak . withSite $ \root -> do
        again <- newRoot (C.pack (show root))
        withFileBeneath again "hello" whole >>= (@?= "hello, world")
        closeRoot again,
      testIn "reading, and nothing left open" $
        withoutLeak $
          withSite $ \root -> do
            withFileBeneath root "hello" whole >>= (@?= "hello, world")
            withFileBeneath root "sub/deep" whole >>= (@?= "deep")
            withFileBeneath root "inside" whole >>= (@?= "hello, world")
            withFileBeneath root "sub/../hello" whole >>= (@?= "hello, world")
            b <- withFileBeneath root "large" whole
            assertBool "large" (b == large)
            withFileBeneath root "empty" whole >>= (@?= ""),
      testIn "offsets and ends" $
        withSite $ \root -> withFileBeneath root "hello" $ \f -> do
          readAt f 7 100 >>= (@?= "world")
          readAt f 7 2 >>= (@?= "wo")
          readAt f 12 100 >>= (@?= "")
          readAt f 1000 100 >>= (@?= "")
          allocaBytes 5 $ \p -> do
            readInto f p 0 5 >>= (@?= 5)
            C.packCStringLen (castPtr p, 5) >>= (@?= "hello")
          expectIOError EINVAL (readAt f 0 0)
          expectIOError EINVAL (readAt f (-1) 1),
      testIn "status" $
        withSite $ \root -> do
          s <- withFileBeneath root "hello" status
          (statusKind s, statusSize s) @?= (RegularFile, 12)
          d <- withFileBeneath root "sub" status
          statusKind d @?= Directory
          expectIOError EISDIR (withFileBeneath root "sub" (\f -> readAt f 0 1)),
      testIn "no way out" $
        withoutLeak $
          withSite $ \root -> do
            let refuses path e = newFileBeneath root path >>= either (@?= e) (\f -> closeFile f >> assertFailure (C.unpack path))
            refuses "outside" EXDEV
            refuses "absolute" EXDEV
            refuses "../secret" EXDEV
            refuses "/etc/passwd" EXDEV
            refuses "sub/../../secret" EXDEV
            refuses "missing" ENOENT
            refuses "hello/x" ENOTDIR
            refuses "loop" ELOOP
            refuses "hello\0.png" EINVAL
            refuses (B.replicate 300 97) ENAMETOOLONG
            expectIOError ENOENT (withFileBeneath root "missing" status),
      testIn "a FIFO does not hold the program" $
        withSite $ \root -> do
          s <- withFileBeneath root "fifo" status
          statusKind s @?= OtherKind,
      testIn "a root must be a directory" $ do
        expectIOError ENOENT (withRoot "/nonexistent-heddle" (const (pure ())))
        expectIOError ENOTDIR (withRoot "/proc/self/exe" (const (pure ()))),
      bothBackends "sending a file" $ \rt -> withSite $ \root -> withFileBeneath root "large" $ \f -> withPair rt $ \a b -> do
        deadline <- late
        let n = B.length large
            collect acc = recvUntil b 65536 deadline >>= \case Got x -> collect (x : acc); _ -> pure (B.concat (reverse acc))
        sender <- forkTask (sendFileUntil a f 5 (n - 5) deadline <* close a)
        sent <- collect []
        joinTask sender >>= (@?= FileSent (n - 5))
        assertBool "bytes" (sent == B.drop 5 large),
      bothBackends "a file that ends early gives a short count" $ \rt -> withSite $ \root -> withFileBeneath root "hello" $ \f -> withPair rt $ \a _ -> do
        sendFileUntil a f 7 100 never >>= (@?= FileSent 5)
        sendFileUntil a f 100 100 never >>= (@?= FileSent 0)
        expectIOError EINVAL (sendFileUntil a f 0 0 never),
      bothBackends "a file to a peer that does not read, and to a closed connection" $ \rt -> withSite $ \root -> withFileBeneath root "large" $ \f -> withPair rt $ \a b -> do
        near <- soon
        let push total =
              sendFileUntil a f 0 (B.length large) near >>= \case
                FileSent n -> push (total + n)
                FileTimedOut n -> pure (total + n)
                FileClosed _ -> assertFailure "closed"
        total <- push 0
        close a
        sendFileUntil a f 0 10 never >>= (@?= FileClosed 0)
        received <- let go k = recvUntil b 65536 never >>= \case Got x -> go (k + B.length x); _ -> pure (k :: Int) in go 0
        received @?= total
        void (isOpen b)
    ]
