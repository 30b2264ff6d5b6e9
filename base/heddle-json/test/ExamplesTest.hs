-- | The examples of the library's haddocks.
module ExamplesTest
  ( tests,
  )
where

import Heddle.Testkit.Examples (examplesPrint)
import Test.Tasty (TestTree)

tests :: TestTree
tests = examplesPrint ["heddle-json", "heddle-bytes", "heddle-prim"] context

-- | What a module's examples need besides the module.
context :: String -> [String]
context = \case
  "Heddle.Json.Build" -> ["import Heddle.Bytes.Put (toByteString)"]
  "Heddle.Json.Check" -> ["import Control.Monad (void)", "import Heddle.Json.Options"]
  "Heddle.Json.Stream" -> ["import Heddle.Json.Options"]
  "Heddle.Json.FromJson" -> ["import Heddle.Json.Malformed"]
  _ -> []
