-- | The key: from the system, another in each process, and never a fixed one.
module HashKeyTest
  ( tests,
    orChild,
  )
where

import Control.Monad (forM_)
import Data.ByteString qualified as ByteString
import Data.List (isInfixOf, nub)
import Foreign.C.Types (CInt (..))
import Heddle.Bytes.Hash
import Heddle.Bytes.Internal.Random (randomBytes)
import Heddle.Prim.Errno
import Heddle.Prim.Exception (IOException, SomeException, catch, try)
import System.Environment (getEnvironment, getExecutablePath, lookupEnv)
import System.Exit (ExitCode (..))
import System.Process (CreateProcess (..), proc, readCreateProcessWithExitCode)
import Test.Tasty (DependencyType (..), TestTree, after, testGroup)
import Test.Tasty.HUnit (assertBool, assertEqual, assertFailure, testCase, (@?=))

tests :: TestTree
tests =
  testGroup
    "Key"
    [ testCase "two keys differ" $ do
        found <- mapM (const newKey) [1 .. 100 :: Int]
        length (nub (map (`hashWith` 'x') found)) @?= 100,
      after AllFinish "two keys differ" . testCase "getrandom: interrupted and short answers are continued" $ do
        faulty (number EINTR) 5 3 0
        found <- newKey
        calls <- c_calls
        c_getrandom 0 0 0 (-1)
        assertBool "the key is what the system gave" (Just found == keyFromBytes (ByteString.pack [0 .. 15]))
        -- Five that were interrupted, five of 3 bytes, and one of 1.
        calls @?= 11,
      after AllFinish "continued" . testCase "getrandom: every error is thrown, with its number" $
        forM_ [ENOSYS, EPERM, EINVAL, EIO, EAGAIN] $ \errno -> do
          faulty (number errno) (-1) 0 (-1)
          found <- try newKey :: IO (Either IOException HashKey)
          shorter <- try (randomBytes 1) :: IO (Either IOException ByteString.ByteString)
          c_getrandom 0 0 0 (-1)
          either errnoOf (const Nothing) found @?= Just errno
          either errnoOf (const Nothing) shorter @?= Just errno,
      testCase "two processes have different keys" $ do
        one <- child "key"
        other <- child "key"
        case (one, other) of
          ((ExitSuccess, a, ""), (ExitSuccess, b, "")) -> assertBool "equal keys" (a /= b && not (null a))
          _ -> assertFailure (show (one, other)),
      testCase "without random bytes the process stops and says so" $
        forM_ [ENOSYS, EPERM] $ \errno -> do
          (code, out, err) <- child (show (errnoNumber errno))
          assertEqual err (ExitFailure 1) code
          out @?= ""
          assertBool err (show errno `isInfixOf` err && "getrandom" `isInfixOf` err && "the key of hash tables" `isInfixOf` err)
    ]
  where
    number errno = fromIntegral (errnoNumber errno)
    faulty = c_getrandom

-- | Another process of this program, which 'orChild' makes do something else; what it wrote.
child :: String -> IO (ExitCode, String, String)
child what = do
  self <- getExecutablePath
  environment <- getEnvironment
  readCreateProcessWithExitCode (proc self []) {env = Just ((variable, what) : environment)} ""

variable :: String
variable = "HEDDLE_TEST_HASH"

-- | The tests, or in a 'child' what that is for: printing a hash under the process's key, with a system call that fails
-- if an error number is given.
orChild :: IO () -> IO ()
orChild main =
  lookupEnv variable >>= \case
    Nothing -> main
    Just "key" -> print (hashWith processKey 'x')
    Just errno -> do
      c_getrandom (read errno) (-1) 0 (-1)
      -- Nothing that a program catches keeps it going with a key that is not one.
      print (hashWith processKey 'x') `catch` \e -> putStrLn ("caught: " <> show (e :: SomeException))
      print (hashWith processKey 'x')

-- Unsafe: sets four variables.
foreign import ccall unsafe "test_getrandom" c_getrandom :: CInt -> CInt -> CInt -> CInt -> IO ()

-- Unsafe: reads a variable.
foreign import ccall unsafe "test_getrandom_calls" c_calls :: IO CInt
